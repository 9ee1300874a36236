// Slow: it plans a long backlog after its planner was killed.
import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import type { SandboxEvent } from "../../src/sandbox/events/event-maker.ts";
import { createRedisStore } from "../../src/store/redis/open.ts";
import { anEvent, rulesFor } from "../contract/store-events.ts";
import { openDownstream } from "../harness/downstream.ts";
import { openFlakyDownstream } from "../harness/flaky-downstream.ts";
import { createMessages, postOf } from "../harness/posts.ts";
import { redisForTest } from "../harness/redis-states.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { openSender } from "../harness/sender.ts";
import { until } from "../harness/until.ts";
import { findDisorder, findWrongSubjects, takeCensus } from "./scale-checks.ts";
import { startProcesses } from "./scale-processes.ts";

const unplanned = "{relay}:unplanned";
const statuses = ["sent", "delivered", "read"] as const;

const gauges = async (relay: RelayProcess): Promise<Record<string, number>> =>
  Object.fromEntries(
    [...String((await relay.ask("/metrics")).body).matchAll(/^(relay_unplanned_\w+) (\S+)$/gm)].map(([, name, value]) => [
      name,
      Number(value),
    ]),
  );

test("a receiver alone accepts events and reports the backlog; a new worker plans and delivers all, in order per message", async () => {
  const downstream = await openFlakyDownstream(() => ({ status: 200 }));
  const redis = await redisForTest();
  const settings = {
    storage: { driver: "redis", url: redis.url },
    log: { level: "warn" },
    tracking: { unknown: "forward" },
    routes: [routeTo(`${downstream.url}/all`, { name: "all" })],
  };
  const receiver = await startRelay({ role: "receive", settings });
  const sender = openSender(receiver, { concurrency: 16 });
  const messages = createMessages("planned later");
  const events: SandboxEvent[] = [];
  await Promise.all(
    Array.from({ length: 60 }, async () => {
      const wamid = messages.wamid();
      // The next status of a message comes once the one before was taken.
      for (const status of statuses) {
        const event = messages.status(wamid, status);
        events.push(event);
        expect(await sender.post(postOf(event))).toMatchObject({ kind: "answered", answer: "accepted" });
      }
    }),
  );
  const [first] = events as [SandboxEvent];
  expect(await sender.post(postOf(first))).toMatchObject({ answer: "duplicate" });

  expect((await receiver.ask("/v1/stats")).body).toMatchObject({ dispositions: { accepted: 180, routed: 0 }, duplicates: 1 });
  expect(await gauges(receiver)).toMatchObject({ relay_unplanned_events: 180 });
  const listed = await runHere([
    "events",
    "list",
    "--disposition",
    "accepted",
    "--limit",
    "500",
    "--json",
    "--config",
    receiver.settingsPath,
  ]);
  expect((JSON.parse(listed.out) as { data: unknown[] }).data).toHaveLength(180);
  const explained = await runHere(["explain", first.id, "--config", receiver.settingsPath]);
  expect(explained.out).toContain("accepted; waits for a process with role work (or both) to plan it");
  expect(await receiver.ask("/v1/audit?wait=20")).toMatchObject({ body: { balanced: true } });
  expect(downstream.counts().arrivals).toBe(0);

  const worker = await startRelay({ role: "work", settings });
  await until("all are delivered", () => downstream.counts().taken === 180);
  const census = await until("all are settled", async () => {
    const found = await takeCensus(redis.url);
    return found.openLists.length === 0 ? found : null;
  });
  const seqOf = new Map(census.events.map(({ id, seq }) => [id as string, seq]));
  expect([seqOf.size, census.deliveries.length]).toEqual([180, 180]);
  expect(census.events.filter(({ disposition }) => disposition !== "routed")).toEqual([]);
  expect(findDisorder(census, downstream.arrivals, "all", seqOf)).toEqual([]);
  expect(findWrongSubjects(census)).toEqual([]);
  expect(downstream.counts().duplicates).toBe(0);
  expect(await gauges(receiver)).toEqual({ relay_unplanned_events: 0, relay_unplanned_oldest_seconds: 0 });
  // With a worker there, what comes next goes out at once.
  expect(await sender.post(postOf(messages.event()))).toMatchObject({ answer: "accepted" });
  await until("it is delivered", () => downstream.counts().taken === 181);
  expect(await receiver.ask("/v1/audit?wait=20")).toMatchObject({ body: { balanced: true } });
  expect([await worker.stop(), await receiver.stop()]).toEqual([
    { code: 0, signal: null },
    { code: 0, signal: null },
  ]);
});

test("another worker continues the backlog of a killed one, plans nothing twice, and the sums match", async () => {
  const perPart = 6_000;
  const downstream = await openDownstream();
  const redis = await redisForTest();
  // Planned, and not sent for an hour.
  const route = routeTo(downstream.url, { name: "later", to: { retry: { schedule: ["1h", "1h"] } } });
  const processes = await startProcesses(0, 2, {
    storage: { driver: "redis", url: redis.url },
    log: { level: "warn" },
    tracking: { unknown: "forward" },
    routes: [route],
  });
  const [killed, other] = processes as [(typeof processes)[0], (typeof processes)[0]];
  const client = new Client(redis.url);
  onTestFinished(() => client.disconnect());
  // A receiver's store, without its HTTP; nor does it tell the workers, who must look themselves.
  const receiver = createRedisStore({ run: (command) => command(client) }, "relay", rulesFor([]), { committed: () => {} }, true);
  const left = () => client.llen(unplanned);
  // They stand still while it grows: a busy machine could plan as fast.
  const freeze = () => {
    for (const { relay } of processes) relay.signal("SIGSTOP");
  };
  freeze();
  let count = 0;
  // It is killed in the middle: when this process pauses, they may plan nearly all there is, and get more.
  for (let now = 0; now < 1_000; now = await left()) {
    await Promise.all(
      Array.from({ length: perPart }, (_, more) => {
        const n = count + more;
        return receiver.accept(anEvent({ wamid: `w${n % 500}`, status: statuses[((n / 500) % 3) | 0] as string, receivedAt: Date.now() }));
      }),
    );
    count += perPart;
    for (const { relay } of processes) relay.signal("SIGCONT");
    await until("they are at it", async () => (await left()) < perPart - 500);
    freeze();
  }
  await killed.relay.kill9();
  expect(await left()).toBeGreaterThan(0);
  other.relay.signal("SIGCONT");
  await until("the other has planned the rest", async () => (await left()) === 0);
  expect(other.relay.isRunning()).toBe(true);

  const census = await takeCensus(redis.url);
  const wanted = Array.from({ length: count }, (_, n) => n + 1);
  expect(census.events.map(({ seq }) => seq)).toEqual(wanted);
  expect(census.events.filter(({ disposition }) => disposition !== "routed")).toEqual([]);
  expect(census.deliveries.map(({ seq }) => seq).sort((a, b) => a - b)).toEqual(wanted);
  expect(findWrongSubjects(census)).toEqual([]);
  // The first of each message goes out next, the others are held behind it in the order in which they came.
  expect(await client.zcard("{relay}:due:later")).toBe(500);
  expect(await client.zcard("{relay}:held:later")).toBe(count - 500);
  const order = (await client.hget("{relay}:d:1:later", "o")) as string;
  expect(await client.zrange(`{relay}:oh:later:${order}`, "0", "-1")).toEqual(
    Array.from({ length: count / 500 - 1 }, (_, n) => String((n + 1) * 500 + 1)),
  );
  const audit = await runHere(["audit", "--config", other.relay.settingsPath]);
  expect(audit, audit.out + audit.err).toMatchObject({ code: 0 });
  expect(await other.relay.stop()).toEqual({ code: 0, signal: null });
  expect(other.relay.log().filter(({ level }) => level === "error")).toEqual([]);
  await receiver.close();
});
