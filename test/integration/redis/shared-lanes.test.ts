import { expect, test } from "vitest";
import { createClaimQueue } from "../../../src/deliver/claim-queue.ts";
import type { AttemptOutcome } from "../../../src/deliver/destinations/destination.ts";
import { createLane } from "../../../src/deliver/lane.ts";
import { createSharedSession } from "../../../src/deliver/session.ts";
import { urlDestinationSchema } from "../../../src/deliver/settings.ts";
import { createRedisBreaker, createRedisRate } from "../../../src/store/redis/shared-limits.ts";
import { createClaimsInMemory } from "../../unit/deliver/claims-in-memory.ts";
import { useGivenTime } from "./given-time.ts";

const given = useGivenTime();

const answered = (status: number, retryAfterMs: number | null = null): AttemptOutcome => ({
  result: { kind: "answered", status, retryAfterMs },
  tookMs: 1,
  response: null,
});

/** Two worker processes that send the deliveries of one route to one destination. */
function setUp(count: number, to: Record<string, unknown>, answer: () => AttemptOutcome) {
  const world = given.world();
  const { clock } = world;
  const claims = createClaimsInMemory(clock.now);
  for (let subject = 1; subject <= count; subject += 1) claims.plan(subject);
  const prefix = given.fresh();
  const sent: { at: number; by: string }[] = [];
  const settings = {
    name: "r",
    payload: "original" as const,
    to: urlDestinationSchema.parse({ url: "https://example.test/hook", concurrency: 4, ...to }),
  };
  const lanes = ["one", "two"].map((holder) => {
    const link = world.link();
    return createLane(settings, {
      queueOf: (route, lane) => createClaimQueue(route, lane, { store: claims.store, clock, holder }),
      ...createSharedSession({
        clock,
        holder,
        breakerNamed: (name) => createRedisBreaker(link, prefix, name, clock.now),
        rateNamed: (name) => createRedisRate(link, prefix, name, clock.now),
      }),
      clock,
      random: () => 0.5,
      connect: () => ({
        async send() {
          sent.push({ at: clock.now(), by: holder });
          return answer();
        },
        async close() {},
      }),
      hooks: { attempted() {}, breakerMoved() {}, stopped() {}, paused() {}, storeFailed() {}, failed() {} },
    });
  });
  return { ...world, claims, sent, lanes };
}

test("a destination that is down costs a few attempts and probes over both processes, and then gets everything", async () => {
  let up = false;
  const retry = { schedule: ["0s", "1s", "1s"], jitter: 0 };
  const { advance, claims, sent, lanes } = setUp(40, { retry, breaker: { failures: 3, pause: "10s", longest: "10s" } }, () =>
    up ? answered(200) : answered(500),
  );
  await advance(9000, 100);
  // What was under way when it opened, in both.
  expect(sent.length).toBeLessThanOrEqual(8);
  const before = sent.length;
  await advance(20_000, 100);
  expect(sent.length - before).toBe(2);
  expect(claims.leased()).toEqual([]);
  up = true;
  await advance(15_000, 100);
  expect(claims.open()).toEqual([]);
  expect(claims.settlements.filter(({ settled }) => settled.to === "delivered")).toHaveLength(40);
  await advance(1000, 100);
  expect(lanes.map((lane) => lane.state().breaker)).toEqual(["closed", "closed"]);
});

test("two processes share a rate", async () => {
  const { advance, claims, sent } = setUp(60, { rate: "20/s" }, () => answered(200));
  await advance(1000, 5);
  expect(sent.length).toBeGreaterThanOrEqual(18);
  expect(sent.length).toBeLessThanOrEqual(22);
  await advance(3000, 5);
  expect(claims.open()).toEqual([]);
});

test("one process keeps the Retry-After that the other received", async () => {
  let first = true;
  const { advance, claims, sent, clock } = setUp(1, {}, () => {
    if (!first) return answered(200);
    first = false;
    return answered(429, 30_000);
  });
  await advance(1000, 100);
  const after = clock.now();
  for (let subject = 10; subject < 20; subject += 1) claims.plan(subject);
  await advance(28_000, 100);
  expect(sent.filter(({ at }) => at > after)).toEqual([]);
  await advance(3000, 100);
  expect(claims.open()).toEqual([]);
});
