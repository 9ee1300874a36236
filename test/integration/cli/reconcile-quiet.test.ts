import { expect, onTestFinished, test, vi } from "vitest";
import { startProgram } from "../../harness/program.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { entry } from "../../harness/relay-process.ts";
import { runHere } from "../../harness/run-here.ts";
import { until } from "../../harness/until.ts";
import { startTestServer } from "../sandbox/test-server.ts";
import { doctorOn, runProcessOn } from "./run-cli.ts";

/** A relay whose service answers every call with this status, or never. */
async function setUp(status: number | null) {
  const service = await startTestServer((response) => {
    if (status !== null)
      response.writeHead(status, { "content-type": "application/json" }).end("{}");
  });
  const relay = await startRelayHere({
    settings: {
      accounts: { main: { baseUrl: service.url, apiKey: "the-key-of-the-account" } },
      reconcile: { schedule: "off", after: "1s" },
    },
  });
  const reconcile = (...args: string[]) =>
    runHere(["reconcile", ...args, "--config", relay.settingsPath]);
  return {
    service,
    relay,
    reconcile,
    /** Registers a message, and waits until it is to be polled. */
    async register(): Promise<void> {
      const body = { wamid: "wamid.due", id: "01998d3e-7c1a-7000-8000-000000000001" };
      expect((await relay.ask("/v1/messages/track", { method: "POST", body })).status).toBe(200);
      await until("its poll is due", async () =>
        (await reconcile("--dry-run", "--json")).out.replace(/\s/g, "").includes('"wouldPoll":1,'),
      );
    },
  };
}

test("reconcile fails when every poll failed, also when too few are due for the pass to stop", async () => {
  const { reconcile, register } = await setUp(500);
  await register();
  const failed = await reconcile("--quiet");
  expect([failed.code, failed.err]).toEqual([
    1,
    'main: every poll failed; "wamid-relay doctor" calls the service and names the fault\n',
  ]);
  // Until its repetition is due, there is nothing to do.
  expect(await reconcile("--quiet")).toEqual({ code: 0, out: "", err: "" });
});

test("reconcile --quiet prints nothing after a pass, and the reason when the pass fails", async () => {
  const { reconcile, register } = await setUp(401);
  expect((await reconcile()).out).toContain("polled");
  expect(await reconcile("--quiet")).toEqual({ code: 0, out: "", err: "" });
  expect((await reconcile("--quiet", "--json")).code).toBe(2);
  await register();
  expect(await reconcile("--quiet")).toMatchObject({
    code: 1,
    err: expect.stringContaining("the service refuses the API key"),
  });
});

test("reconcile without a relay gives the store to one that starts, which polls the rest", {
  // A call that hangs lasts for ten seconds.
  tags: ["slow"],
}, async () => {
  const { service, relay, register } = await setUp(null);
  await register();
  await relay.stop();
  const reconciled = runProcessOn(relay, "reconcile");
  await until("the command polls", () => service.seen.length > 0);
  expect((await doctorOn(relay, "--offline")).said("relay", "holder")).toEqual([
    expect.stringMatching(/^ok held by a command, process \d+/),
    expect.stringContaining("warn does not run: nothing listens"),
  ]);
  const serve = startProgram(process.execPath, [entry, "serve", "--config", relay.settingsPath]);
  await serve.until("the relay listens", () => serve.output().includes('"listening"'));
  expect((await reconciled).err).toContain(
    "note: ended early: a relay starts with this store, and polls the rest\n",
  );
});

test("reconcile --quiet prints no progress of a pass that takes several requests", async () => {
  const counts = { polled: 1, changed: 0, unchanged: 1, missing: 0, failed: 0, postponed: 0 };
  const main = { ...counts, account: "main", stopped: null, lastsUntil: null, unpollable: 0 };
  const relay = await startTestServer((response, { body }, count) => {
    const plan = { due: 2, wouldPoll: 2 };
    response.setHeader("content-type", "application/json").end(
      JSON.stringify({
        dueBy: "2026-11-28T12:00:00.000Z",
        ...(String(body).includes('"dryRun":true')
          ? { accounts: [{ ...main, ...plan }] }
          : { accounts: [main], more: count % 3 === 2 }),
      }),
    );
  });
  // Each look at the clock is three seconds after the last one.
  let now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => (now += 3_000));
  onTestFinished(() => void vi.restoreAllMocks());
  const args = ["reconcile", "--relay", relay.url];
  const env = { RELAY_TOKEN: "a-token-0123456789" };
  expect((await runHere(args, env)).err).toContain("50%  1 of 2 polled\n");
  expect(await runHere([...args, "--quiet"], env)).toEqual({ code: 0, out: "", err: "" });
});
