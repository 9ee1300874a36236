import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect, test } from "vitest";
import { statsOf } from "../../harness/ask-relay.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { engines, storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { entry } from "../../harness/relay-process.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn } from "./run-cli.ts";

async function withDelivered(events: number) {
  const downstream = await openDownstream();
  const relay = await startRelayHere({ settings: { routes: [routeTo(downstream.url)] } });
  await deliver(events, relay);
  return { downstream, relay };
}

async function deliver(events: number, relay: Pick<RelayHere, "ask" | "webhookUrl">) {
  const messages = createMessages("replaying");
  for (let each = 0; each < events; each++) await postEvent(relay.webhookUrl, messages.event());
  await until(
    "all are delivered",
    async () => (await statsOf(relay)).deliveries.delivered === events,
  );
}

function startReplay(
  relay: Pick<RelayHere, "settingsPath">,
  ...args: string[]
): { readonly child: ChildProcess; readonly said: () => string } {
  const child = spawn(
    process.execPath,
    [entry, "replay", ...args, "--config", relay.settingsPath],
    {
      stdio: ["ignore", "pipe", "pipe"],
    },
  );
  let said = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
  }
  return { child, said: () => said };
}

test("keeps the ids of replayed deliveries, and its rate", async () => {
  const { downstream, relay } = await withDelivered(12);
  const startedAt = performance.now();
  const { code, out } = await runOn(
    relay,
    "replay",
    "--state",
    "delivered",
    "--yes",
    "--rate",
    "8/s",
  );
  expect([code, out]).toEqual([0, "12 of 12 deliveries go out again\n"]);
  // Four of 12 at a time: the last ones one second after the first, at least.
  expect(performance.now() - startedAt).toBeGreaterThan(1_000);
  await until("all came again", () => downstream.counts().duplicates === 12);
  const [first, second] = [downstream.arrivals.slice(0, 12), downstream.arrivals.slice(12)];
  expect(second.map(({ deliveryId }) => deliveryId).toSorted()).toEqual(
    first.map(({ deliveryId }) => deliveryId).toSorted(),
  );
});

test("after Ctrl-C it prints how to continue, and sends nothing twice", async () => {
  const { downstream, relay } = await withDelivered(30);
  const { child, said } = startReplay(relay, "--state", "delivered", "--yes", "--rate", "20/m");
  await until("the first has gone out", () => downstream.counts().duplicates > 0);
  child.kill("SIGINT");
  expect(await once(child, "close")).toEqual([1, null]);
  const place =
    /wamid-relay: stopped; \d+ of 30 deliveries go out again; go on with the same options and --resume (\S+)\n$/.exec(
      said(),
    )?.[1] ?? "";
  expect((await runOn(relay, "replay", "--state", "delivered", "--resume", place)).code).toBe(0);
  await until("all came again", () => downstream.counts().duplicates === 30);
  await until("nothing waits", async () => (await statsOf(relay)).deliveries.delivered === 30);
  expect(downstream.arrivals.length).toBe(60);
  expect((await runOn(relay, "replay", "--resume", "somewhere")).code).toBe(2);
});

test.each(engines)(
  "on %s it delivers ignored events once after a late registration, and the audit balances",
  async (engine) => {
    const downstream = await openDownstream();
    const relay = await startRelayHere({
      settings: {
        ...(await storageOf(engine)),
        tracking: { unknown: "ignore" },
        routes: [routeTo(downstream.url, { match: { tracked: true } })],
      },
    });
    const messages = createMessages("too late");
    const wamid = messages.wamid();
    const events = [messages.status(wamid, "sent"), messages.status(wamid, "delivered")];
    for (const event of [...events, messages.status(messages.wamid(), "sent")])
      await postEvent(relay.webhookUrl, event);
    expect((await statsOf(relay)).dispositions["ignored"]).toBe(3);
    await runOn(relay, "track", "--account", "main", "--wamid", wamid);
    expect((await runOn(relay, "replay", "--disposition", "ignored", "--dry-run")).out).toBe(
      "2 deliveries match:\n  everything: 2\n",
    );
    const asked = await runOn(relay, "replay", "--disposition", "ignored");
    expect(asked.err).toBe(
      "wamid-relay: 2 deliveries of ignored events would go out again; add --yes to do it\n",
    );
    expect((await runOn(relay, "replay", "--disposition", "filtered", "--yes")).out).toBe(
      "0 deliveries match\n",
    );
    expect((await runOn(relay, "replay", "--disposition", "ignored", "--yes")).out).toBe(
      "2 of 2 deliveries go out again\n",
    );
    await until(
      "both are delivered",
      async () => (await statsOf(relay)).deliveries.delivered === 2,
    );
    expect(downstream.arrivals.map(({ eventId }) => eventId)).toEqual(events.map(({ id }) => id));
    expect((await statsOf(relay)).dispositions).toMatchObject({ ignored: 1, routed: 2 });
    expect((await runOn(relay, "replay", "--disposition", "ignored", "--yes")).out).toBe(
      "0 deliveries match\n",
    );
    expect(jsonOf<{ balanced: boolean }>(await runOn(relay, "audit", "--json")).balanced).toBe(
      true,
    );
  },
);
