import { expect, onTestFinished, test } from "vitest";
import { type Sandbox, startSandbox } from "../../../src/sandbox/start-sandbox.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { usageOf } from "../../harness/sandbox-usage.ts";
import { jsonOf, runOn, runProcessOn } from "../cli/run-cli.ts";

interface Done {
  readonly accounts: {
    account: string;
    polled: number;
    changed: number;
    stopped: { reason: string } | null;
  }[];
}

async function setUp(
  count = 3,
): Promise<{ sandbox: Sandbox; relay: RelayHere; calls: () => Promise<number> }> {
  const sandbox = await startSandbox();
  onTestFinished(() => sandbox.close());
  const relay = await startRelayHere({
    settings: {
      accounts: { main: { baseUrl: sandbox.url, apiKey: sandbox.key }, mute: {} },
      reconcile: { schedule: "off", after: "1s" },
    },
  });
  const [template] = sandbox.templates();
  for (let n = 0; n < count; n++) {
    const { body } = await sandbox.call("POST", "/messages", {
      to: `+54911555500${n}1`,
      template: { id: template?.id, variables: {} },
    });
    const { id, wamid } = body as { id: string; wamid: string };
    // Sent a while ago, so that it is due.
    const sentAt = new Date(Date.now() - 90_000).toISOString();
    await relay.ask("/v1/messages/track", {
      method: "POST",
      body: { account: "main", id, wamid, sentAt },
    });
  }
  sandbox.clock.advance(60_000);
  const calls = async () => (await usageOf(sandbox)).apiCalls.used;
  return { sandbox, relay, calls };
}

test("polls through a running relay, except in a dry run, and nothing twice", async () => {
  const { relay, calls } = await setUp();
  const before = await calls();
  const dry = await runOn(relay, "reconcile", "--dry-run");
  expect(dry).toMatchObject({ code: 0, err: "" });
  expect(dry.out).toMatch(/^account +due +would poll +postponed\nmain +3 +3 +0\n$/);
  expect(await calls()).toBe(before);

  const done = await runProcessOn(relay, "reconcile");
  expect(done).toMatchObject({ code: 0, err: "" });
  expect(done.out).toMatch(
    /^account +polled +changed +unchanged +missing +failed +postponed\nmain +3 +3 +0 +0 +0 +0\n$/,
  );
  expect(await calls()).toBe(before + 3);
  expect(jsonOf<Done>(await runOn(relay, "reconcile", "--json"))).toMatchObject({
    accounts: [{ account: "main", polled: 0 }],
  });
});

test("polls by itself without a relay, and the next start has the found statuses", async () => {
  const { relay, calls } = await setUp();
  await relay.stop();
  const before = await calls();
  const done = await runOn(relay, "reconcile");
  expect(done).toMatchObject({
    code: 0,
    err: "note: no relay answered; deliveries go out while one runs\n",
  });
  expect(await calls()).toBe(before + 3);
  await relay.start();
  const events = (await relay.ask("/v1/events")).body as {
    data: { origin: string; status: string }[];
  };
  expect(events.data.map(({ origin }) => origin)).toEqual(["reconcile", "reconcile", "reconcile"]);
});

test("exits 1 for a refused key or no account, 2 for wrong usage, 3 for a used-up quota", async () => {
  const { sandbox, relay } = await setUp();
  await sandbox.control("PUT", "/usage", { apiCalls: 300_000 });
  const left = await runProcessOn(relay, "reconcile");
  expect(left.code).toBe(3);
  expect(left.err).toMatch(/^main: stopped: the month's quota is used up until 20\d\d-/);
  await sandbox.control("PUT", "/usage", { apiCalls: 0 });
  const { data } = (await sandbox.control("GET", "/keys")).body as { data: { id: string }[] };
  for (const { id } of data) await sandbox.control("DELETE", `/keys/${id}`);
  await relay.stop();
  const refused = await runOn(relay, "reconcile", "--json");
  expect(refused.code).toBe(1);
  expect(JSON.parse(refused.out)).toMatchObject({
    accounts: [{ polled: 0, stopped: { reason: "unauthenticated" } }],
  });
  expect(refused.err).toBe("main: stopped: the service refuses the API key\n");

  expect(await runOn(relay, "reconcile", "--account", "mute")).toMatchObject({ code: 1, out: "" });
  relay.writeSettings({});
  expect(await runOn(relay, "reconcile")).toMatchObject({
    code: 1,
    err: "wamid-relay: no account can be polled: none has baseUrl and apiKey in the settings\n",
  });
  expect((await runOn(relay, "reconcile", "--wat")).code).toBe(2);
});
