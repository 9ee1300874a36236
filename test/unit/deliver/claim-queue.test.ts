import { expect, test } from "vitest";
import { createClaimQueue, leaseMs } from "../../../src/deliver/claim-queue.ts";
import type { Settlement } from "../../../src/model/delivery.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";
import { createClaimsInMemory } from "./claims-in-memory.ts";

function setUp({ count = 0, room = 4, mostAhead = 8, bodyBytes = 2 } = {}) {
  /** How far the clocks of this process and of the store were set back, in ms. */
  const setBack = { own: 0, store: 0 };
  const hands = createManualClock();
  const clock = { ...hands, now: () => hands.now() - setBack.own };
  const claims = createClaimsInMemory(() => hands.now() - setBack.store, bodyBytes);
  for (let event = 1; event <= count; event += 1) claims.plan(event);
  const lane = { room, wakes: 0, faults: [] as unknown[] };
  const make = (holder: string) =>
    createClaimQueue(
      "r",
      {
        wake() {
          lane.wakes += 1;
        },
        failed: (error) => void lane.faults.push(error),
        room: () => lane.room,
        mostAhead: () => mostAhead,
      },
      { store: claims.store, clock, holder },
    );
  return { clock, setBack, claims, lane, queue: make("one"), make };
}

type Setup = ReturnType<typeof setUp>;

/** Starts the next delivery; gives its event. */
async function startNext({ queue, clock }: Pick<Setup, "queue" | "clock">): Promise<number | null> {
  if (queue.peek(clock.now()) === null) await settled();
  const delivery = queue.peek(clock.now());
  if (delivery === null) return null;
  queue.start();
  return delivery.event;
}

function settlement(event: number, at: number, more: Partial<Settlement> = {}): Settlement {
  const result = { kind: "answered", status: 200, retryAfterMs: null } as const;
  return { route: "r", event, attempt: { number: 1, at, tookMs: 1, result, response: null }, settled: { to: "delivered" }, at, ...more };
}

test("claims in the background only what may start while its speed is unknown", async () => {
  const { queue, claims, clock, lane } = setUp({ count: 100 });
  expect(queue.peek(clock.now())).toBeNull();
  await settled();
  expect(lane.wakes).toBeGreaterThan(0);
  expect(claims.leased()).toEqual([1, 2, 3, 4]);
});

test("claims ahead what finishes within a few round trips, up to a limit in bytes", async () => {
  const set = setUp({ count: 2000, mostAhead: 32 });
  for (let n = 0; n < 500; n += 1) {
    const event = await startNext(set);
    await set.queue.settle(settlement(event as number, set.clock.now()));
  }
  await settled();
  const ahead = set.claims.leased().length;
  expect(ahead).toBeGreaterThan(16);
  expect(ahead).toBeLessThanOrEqual(36);
  expect(set.claims.calls.claim).toBeLessThan(100);

  const big = setUp({ count: 20, room: 20, bodyBytes: 3 * 1024 * 1024 });
  big.queue.peek(big.clock.now());
  await settled();
  // The last may be of any size.
  expect(big.claims.leased()).toHaveLength(3);
});

test("renews leases during attempts; another queue claims those of a dead queue after the lease", async () => {
  const set = setUp({ count: 1 });
  expect(await startNext(set)).toBe(1);
  await set.clock.advance(10 * leaseMs);
  expect(set.claims.leased()).toEqual([1]);
  const other = { ...set, queue: set.make("two") };
  expect(await startNext(other)).toBeNull();
  await set.queue.close();
  other.queue.peek(set.clock.now());
  // It was renewed when a third of it was over.
  await set.clock.advance(leaseMs / 2);
  expect(await startNext(other)).toBeNull();
  await set.clock.advance(leaseMs / 2 + 1000);
  expect(await startNext(other)).toBe(1);
});

test("hands back what cannot start soon: at once when at rest, else after two seconds", async () => {
  const { queue, claims, clock, make, lane } = setUp({ count: 3 });
  queue.peek(clock.now());
  await settled();
  expect(claims.leased()).toEqual([1, 2, 3]);
  queue.rest();
  await settled();
  expect(claims.leased()).toEqual([]);
  await clock.advance(10_000);
  expect(claims.leased()).toEqual([]);
  queue.peek(clock.now());
  await settled();
  expect(claims.leased()).toEqual([1, 2, 3]);
  // The lane has filled up since: a destination that hangs, for one.
  lane.room = 0;
  await clock.advance(3000);
  expect(claims.leased()).toEqual([]);
  const other = make("two");
  lane.room = 4;
  other.peek(clock.now());
  await settled();
  expect(other.peek(clock.now())?.event).toBe(1);
});

test("polls every second and when a delivery becomes due", async () => {
  const { queue, claims, clock } = setUp();
  queue.peek(clock.now());
  await settled();
  claims.plan(1);
  await clock.advance(1000);
  expect(queue.peek(clock.now())?.event).toBe(1);
  const at = clock.now() + 500;
  claims.plan(2, at);
  queue.offer({ lane: 0, event: 2, at });
  expect(queue.nextDueAt()).toBe(at);
  await clock.advance(500);
  queue.start();
  await settled();
  expect(queue.peek(clock.now())?.event).toBe(2);
});

test("retries at most twice a second while the store is down, and starts nothing with an expired lease", async () => {
  const { queue, claims, clock, lane } = setUp({ count: 5, room: 2 });
  queue.peek(clock.now());
  await settled();
  expect(claims.leased()).toEqual([1, 2]);
  lane.room = 9;
  claims.fail(new Error("down"));
  await clock.advance(1500);
  const before = claims.calls.claim;
  await clock.advance(20_000);
  expect(claims.calls.claim - before).toBeLessThanOrEqual(41);
  expect(claims.calls.claim - before).toBeGreaterThan(10);
  expect(lane.faults.length).toBeGreaterThan(0);
  await clock.advance(leaseMs);
  expect(queue.peek(clock.now())).toBeNull();
  claims.fail(null);
  await clock.advance(1000);
  expect(queue.peek(clock.now())?.event).toBe(1);
});

test("retries in time when the clock is set back by an hour after a failure", async () => {
  const { queue, claims, clock, setBack } = setUp();
  claims.fail(new Error("down"));
  queue.peek(clock.now());
  await settled();
  setBack.own = 3_600_000;
  claims.plan(1, clock.now());
  claims.fail(null);
  await clock.advance(1500);
  expect(queue.peek(clock.now())?.event).toBe(1);
});

test("renews its leases when the clocks are set back, and starts nothing that waited too long", async () => {
  const set = setUp({ count: 2, room: 2 });
  set.setBack.store = 3_600_000;
  expect(await startNext(set)).toBe(1);
  expect(set.claims.leased()).toEqual([1, 2]);
  set.setBack.own = 3_600_000;
  set.lane.room = 0;
  await set.clock.advance(3000);
  expect(set.claims.leased()).toEqual([1]);
  await set.clock.advance(10 * leaseMs);
  expect(set.claims.leased()).toEqual([1]);
  expect(set.queue.peek(set.clock.now())).toBeNull();
});

test("hands back once the store is up again what it could not hand back before", async () => {
  const set = setUp({ count: 5, room: 5 });
  expect(await startNext(set)).toBe(1);
  set.claims.fail(new Error("down"));
  set.lane.room = 0;
  await set.clock.advance(leaseMs / 2);
  expect(set.claims.leased()).toEqual([1, 2, 3, 4, 5]);
  set.claims.fail(null);
  await set.clock.advance(1000);
  expect(set.claims.leased()).toEqual([1]);
});

test("starts no second attempt when it claims a delivery whose attempt is in flight", async () => {
  const set = setUp({ count: 1 });
  expect(await startNext(set)).toBe(1);
  set.claims.fail(new Error("down"));
  await set.clock.advance(leaseMs + 1000);
  set.claims.fail(null);
  await set.clock.advance(2000);
  expect(set.claims.leased()).toEqual([1]);
  expect(await startNext(set)).toBeNull();
  await set.queue.settle(settlement(1, set.clock.now()));
  expect(set.claims.open()).toEqual([]);
});

test("writes a result once when the call is repeated after an unknown outcome", async () => {
  const set = setUp({ count: 1 });
  const { queue, claims, clock } = set;
  expect(await startNext(set)).toBe(1);
  const again = settlement(1, clock.now(), { settled: { to: "waiting", nextAt: clock.now() } });
  const settle = claims.store.settle;
  claims.store.settle = async (...order) => {
    await settle(...order);
    throw new Error("no answer");
  };
  await expect(queue.settle(again)).rejects.toThrow("no answer");
  claims.store.settle = settle;
  await queue.settle(again);
  expect(claims.settlements).toHaveLength(1);
  expect(await startNext(set)).toBe(1);
  expect(claims.rows.get(1)?.attempts).toBe(1);
});

test("claims the delivery that a settled one released, and none while at rest", async () => {
  const set = setUp();
  const { queue, claims, clock } = set;
  for (let n = 0; n < 3; n += 1) claims.plan(7);
  expect(await startNext(set)).toBe(1);
  await queue.settle(settlement(1, clock.now()));
  expect(await startNext(set)).toBe(2);
  queue.rest();
  await queue.settle(settlement(2, clock.now()));
  await queue.close();
  expect(claims.leased()).toEqual([]);
  expect(claims.rows.get(3)?.state).toBe("waiting");
  expect(clock.pending()).toBe(0);
});

test("notices a stop and its end within a second", async () => {
  const set = setUp({ count: 4, room: 2 });
  const { queue, claims, clock, make } = set;
  expect(await startNext(set)).toBe(1);
  const other = make("two");
  await queue.settle(settlement(1, clock.now(), { settled: { to: "waiting", nextAt: clock.now() }, stop: "gone" }));
  await settled();
  expect(queue.stopReason()).toBe("gone");
  expect(claims.leased()).toEqual([]);
  other.peek(clock.now());
  await settled();
  expect(other.stopReason()).toBe("gone");
  await clock.advance(5000);
  expect(claims.leased()).toEqual([]);
  claims.resume();
  await clock.advance(1000);
  expect([queue.stopReason(), other.stopReason()]).toEqual([null, null]);
});

test("renews no lease of a delivery that was settled or handed back", async () => {
  const set = setUp({ count: 3, room: 3 });
  const { queue, claims, clock, lane } = set;
  for (let event = 1; event <= 3; event += 1) expect(await startNext(set)).toBe(event);
  lane.room = 0;
  await queue.settle(settlement(1, clock.now()));
  await queue.settle(settlement(2, clock.now(), { settled: { to: "waiting", nextAt: clock.now() + 3_600_000 } }));
  queue.putBack(3);
  await clock.advance(2 * leaseMs);
  expect(claims.calls.renew).toBe(0);
  expect(claims.leased()).toEqual([]);
});
