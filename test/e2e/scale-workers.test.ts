// Slow: it freezes and stops workers under load.
import { Redis as Client } from "ioredis";
import { expect, test } from "vitest";
import type { SandboxEvent } from "../../src/sandbox/events/event-maker.ts";
import { type FlakyDownstream, openFlakyDownstream, type Treatment } from "../harness/flaky-downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { redisForTest } from "../harness/redis-states.ts";
import type { RelayProcess } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { until } from "../harness/until.ts";
import { findSetbacks } from "./crash-checks.ts";
import { takeCensus } from "./scale-checks.ts";
import { startProcesses } from "./scale-processes.ts";

async function start(receivers: number, workers: number, treat: () => Treatment) {
  const downstream = await openFlakyDownstream(treat);
  const redis = await redisForTest();
  const processes = await startProcesses(receivers, workers, {
    storage: { driver: "redis", url: redis.url },
    log: { level: "warn" },
    tracking: { unknown: "forward" },
    routes: [routeTo(`${downstream.url}/all`, { name: "all", to: { concurrency: 8 } })],
  });
  const relays = processes.map(({ relay }) => relay);
  return { downstream, redis, relays };
}

const balanced = async (relay: RelayProcess) => expect(await relay.ask("/v1/audit?wait=20")).toMatchObject({ body: { balanced: true } });

/** The deliveries in Redis are those of the events, all delivered, and each arrived. */
async function expectDelivered(url: string, downstream: FlakyDownstream, count: number): Promise<Map<string, number>> {
  const { events, deliveries, openLists } = await until("all are settled", async () => {
    const census = await takeCensus(url);
    return census.openLists.length === 0 ? census : null;
  });
  expect(openLists).toEqual([]);
  const seqOf = new Map(events.map(({ id, seq }) => [id as string, seq]));
  expect([events.length, seqOf.size]).toEqual([count, count]);
  expect(deliveries.map(({ seq }) => seq).sort((a, b) => a - b)).toEqual(events.map(({ seq }) => seq));
  expect(deliveries.filter(({ state }) => state !== "2")).toEqual([]);
  expect(new Set(downstream.arrivals.map(({ eventId }) => eventId)).size).toBe(count);
  return seqOf;
}

test("concurrent posts of an id to two receivers are one event and one delivery, accepted once", async () => {
  const { downstream, redis, relays } = await start(2, 1, () => ({ status: 200 }));
  const [first, second] = relays as [RelayProcess, RelayProcess];
  const messages = createMessages("two receivers");
  for (let turn = 0; turn < 8; turn += 1) {
    const events = Array.from({ length: 20 }, messages.event);
    const words = await Promise.all(
      events.map(async (event) => {
        const copies = [first, second, first, second].map(({ webhookUrl }) => postEvent(webhookUrl, event));
        return (await Promise.all(copies)).map(({ status, word }) => `${status} ${word}`).sort();
      }),
    );
    for (const said of words) expect(said).toEqual(["200 accepted", "200 duplicate", "200 duplicate", "200 duplicate"]);
  }
  await expectDelivered(redis.url, downstream, 160);
  expect(downstream.counts()).toMatchObject({ arrivals: 160, taken: 160 });
  const sums = await first.ask("/v1/stats");
  expect(sums.body).toMatchObject({ duplicates: 480, dispositions: { routed: 160 } });
  await balanced(second);
});

test("a stopping worker returns its claims at once; a frozen one repeats at most what was in flight", async () => {
  let answerMs = 150;
  const arrivedAt: number[] = [];
  const { downstream, redis, relays } = await start(1, 2, () => {
    arrivedAt.push(performance.now());
    return { status: 200, afterMs: answerMs };
  });
  const [receiver, stopping, freezing] = relays as [RelayProcess, RelayProcess, RelayProcess];
  const messages = createMessages("workers");
  let posted = 0;

  async function post(count: number): Promise<void> {
    const events: SandboxEvent[] = Array.from({ length: count }, messages.event);
    const more = events.map(({ data }) => messages.status(data["wamid"] as Parameters<typeof messages.status>[0], "delivered"));
    for (const event of [...events, ...more]) expect((await postEvent(receiver.webhookUrl, event)).word).toBe("accepted");
    posted += 2 * count;
  }
  const allTaken = () => until("all are taken", () => downstream.counts().taken === posted);

  // SIGTERM: what is under way ends, and what is claimed beside it waits for others at once.
  await post(60);
  await until("both are at it", () => downstream.counts().arrivals >= 16);
  expect(await stopping.stop()).toEqual({ code: 0, signal: null });
  expect((await holdersOf(redis.url)).size).toBeLessThanOrEqual(1);
  await allTaken();
  expect(downstream.counts().duplicates).toBe(0);

  // SIGSTOP for longer than its leases: what it had is another's, and what it comes back with changes nothing.
  await stopping.start();
  await post(60);
  // One has 8 under way at the most: more that are not answered for a while yet are of both.
  answerMs = 3_000;
  const lately = () => arrivedAt.filter((at) => at > performance.now() - (2 / 3) * answerMs).length;
  await until("both wait for answers", async () => (await holdersOf(redis.url)).size === 2 && lately() > 8);
  freezing.signal("SIGSTOP");
  answerMs = 150;
  await allTaken();
  freezing.signal("SIGCONT");
  await until("it is back", async () => (await freezing.ask("/readyz")).status === 200);
  expect(await stopping.stop()).toEqual({ code: 0, signal: null });
  await post(5);
  await allTaken();
  const seqOf = await expectDelivered(redis.url, downstream, posted);
  const { duplicates } = downstream.counts();
  expect(duplicates).toBeGreaterThan(0);
  // 8 attempts, and as many results as may wait for Redis.
  expect(duplicates).toBeLessThanOrEqual(5 * 8);
  const firsts = downstream.arrivals.filter(({ attempt }) => attempt === 1);
  expect(findSetbacks(firsts, "/all", seqOf)).toEqual([]);
  await balanced(receiver);
});

/** Who has claimed something. */
async function holdersOf(url: string): Promise<Set<string | null>> {
  const redis = new Client(url);
  try {
    const claimed = await redis.zrange("{relay}:leased:all", "0", "-1");
    return new Set((await Promise.all(claimed.map((seq) => redis.hget(`{relay}:d:${Number(seq)}:all`, "c")))).filter((c) => c !== null));
  } finally {
    redis.disconnect();
  }
}
