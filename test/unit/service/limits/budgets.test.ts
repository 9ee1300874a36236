import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { limitsFrom, slotKinds } from "../../../../src/model/budget.ts";
import {
  type CallCap,
  type CallOutcome,
  type CallRequest,
  callOperations,
} from "../../../../src/service/endpoints.ts";
import { shareOf } from "../../../../src/service/limits/caps.ts";
import { limitsOf } from "../../../../src/service/limits/slots.ts";
import { createParties, mostInAWindow, type Party } from "../../../harness/budget-parties.ts";
import type { ManualClock } from "../../../harness/manual-clock.ts";
import { answered, poll, run, send } from "./set-up.ts";

const windowMs = 60_000;
const graceMs = 30_000;

/** Always has more of these calls to make, `many` at once. Returns the times at which they went. */
function keepCalling(
  clock: ManualClock,
  { limiter }: Pick<Party, "limiter">,
  call: CallRequest,
  {
    many = 8,
    tookMs = 100,
    outcome = answered as CallOutcome,
    until = Number.POSITIVE_INFINITY,
  } = {},
): number[] {
  const times: number[] = [];
  const next = async (): Promise<void> => {
    while (clock.now() < until) {
      const permit = await limiter.enter(call).catch(() => null);
      if (permit !== null) times.push(clock.now());
      await new Promise<void>(
        (resolve) => void clock.after(permit === null ? 1_000 : tookMs, resolve),
      );
      permit?.settle(outcome);
    }
  };
  for (let n = 0; n < many; n += 1) void next();
  return times;
}

const since = (times: readonly number[], from: number): number =>
  times.filter((at) => at >= from).length;

describe("one busy process among three", () => {
  test.each([
    ["runs", run, 300, 8_000],
    ["messages", send, 60, windowMs],
    ["polls", poll, 216, windowMs],
  ] as const)(
    "uses the whole cap with %s while the others rest, and they hold nothing",
    async (_, call, cap, withinMs) => {
      const { clock, join, memory } = createParties();
      const [busy, ...idle] = [join(), join(), join()];
      for (const other of idle) (await other.limiter.enter(poll)).settle(answered);
      await clock.advance(70_000);
      expect(memory.parts()).toEqual(limitsFrom(() => 0));
      expect(clock.pending()).toBe(0);
      const times = keepCalling(clock, busy as Party, call);
      await clock.advance(withinMs);
      expect(times.length).toBeGreaterThanOrEqual(cap * 0.97);
      await clock.advance(2 * windowMs);
      expect(since(times, clock.now() - windowMs)).toBeGreaterThanOrEqual(cap * 0.97);
      expect(mostInAWindow(times)).toBeLessThanOrEqual(cap);
    },
  );

  test("leaves room at once for a call of another", async () => {
    const { clock, join } = createParties();
    const [busy, other] = [join(), join()];
    keepCalling(clock, busy, poll);
    await clock.advance(2 * windowMs);
    const from = clock.now();
    const gone: number[] = [];
    void other.limiter.enter(send).then((permit) => {
      gone.push(clock.now() - from);
      permit.settle(answered);
    });
    await clock.advance(0);
    expect(gone).toEqual([0]);
  });
});

test("two busy processes end with a half each, and lose little of the cap", async () => {
  const { clock, join } = createParties();
  const one = keepCalling(clock, join(), run);
  await clock.advance(windowMs);
  const other = keepCalling(clock, join(), run);
  await clock.advance(3 * windowMs);
  const from = clock.now();
  await clock.advance(windowMs);
  expect(since(one, from) + since(other, from)).toBeGreaterThan(285);
  expect(Math.min(since(one, from), since(other, from))).toBeGreaterThan(120);
  expect(mostInAWindow([...one, ...other])).toBeLessThanOrEqual(300);
});

test("with less than a slot for each, all processes get a turn", async () => {
  const { clock, join } = createParties();
  const all = [1, 2, 3].map(() =>
    keepCalling(clock, join({ caps: { requests: 2, messages: 1 } }), send, { many: 1 }),
  );
  await clock.advance(20 * windowMs);
  for (const times of all) expect(times.length).toBeGreaterThan(2);
  expect(mostInAWindow(all.flat())).toBe(1);
});

test("what a dead process had is free for others once its calls no longer count", async () => {
  const { clock, join } = createParties();
  const [one, other] = [join(), join()];
  const before = keepCalling(clock, one, run, { until: 1_800_000_005_000 });
  await clock.advance(5_000);
  one.kill();
  const after = keepCalling(clock, other, run);
  await clock.advance(100_000);
  expect(mostInAWindow([...before, ...after])).toBeLessThanOrEqual(300);
  await clock.advance(windowMs);
  expect(since(after, clock.now() - windowMs)).toBeGreaterThan(250);
});

test("without the store a process uses its part until the lease is over, and then refuses calls until the store is back", async () => {
  const { clock, join } = createParties();
  const party = join();
  const times = keepCalling(clock, party, poll, { many: 1, tookMs: 1_000 });
  await clock.advance(5_000);
  party.fail = "down";
  await clock.advance(9_000);
  expect(since(times, clock.now() - 2_000)).toBeGreaterThan(0);
  await clock.advance(10_000);
  expect(since(times, clock.now() - 2_000)).toBe(0);
  await expect(party.limiter.enter(send)).rejects.toMatchObject({ kind: "caps-unknown" });
  party.fail = "no";
  await clock.advance(3_000);
  expect(since(times, clock.now() - 1_500)).toBeGreaterThan(0);
});

test("however many processes have a bad key, fewer than 20 calls a minute show it", async () => {
  const { clock, join } = createParties();
  const bad = Array.from({ length: 6 }, () =>
    keepCalling(clock, join(), poll, { outcome: { type: "unauthenticated" } }),
  );
  await clock.advance(5 * windowMs);
  expect(mostInAWindow(bad.flat())).toBeLessThanOrEqual(16);
  expect(bad.flat().length).toBeGreaterThan(6);
});

test("a key that is revoked under load costs fewer than 20 bad calls a minute", async () => {
  const { clock, join } = createParties();
  let isRevoked = false;
  const bad: number[] = [];
  const call = async ({ limiter }: Party): Promise<void> => {
    for (;;) {
      const permit = await limiter.enter(run).catch(() => null);
      await new Promise<void>((resolve) => void clock.after(permit === null ? 1_000 : 50, resolve));
      if (isRevoked && permit !== null) bad.push(clock.now());
      permit?.settle(isRevoked ? { type: "unauthenticated" } : answered);
    }
  };
  for (const party of Array.from({ length: 5 }, () => join()))
    for (let n = 0; n < 8; n += 1) void call(party);
  await clock.advance(90_000);
  isRevoked = true;
  await clock.advance(5 * windowMs);
  expect(mostInAWindow(bad)).toBeLessThanOrEqual(16);
});

test("the stop of a quota reaches the other processes, and an operator ends it for all", async () => {
  const { clock, join } = createParties();
  const [one, other] = [join(), join()];
  for (const { limiter } of [one, other]) (await limiter.enter(poll)).settle(answered);
  await clock.advance(1_000);
  (await one.limiter.enter(send)).settle({ type: "quota-used-up", resource: "apiCalls" });
  await clock.advance(4_000);
  await expect(other.limiter.enter(poll)).rejects.toMatchObject({ kind: "quota" });
  expect(other.limiter.state()).toMatchObject({
    stops: one.limiter.state().stops,
    resources: { quota: "apiCalls" },
  });

  other.fail = "down";
  await expect(other.limiter.resumeByOrder()).rejects.toMatchObject({ kind: "caps-unknown" });
  other.fail = "no";
  await clock.advance(1_000);
  expect(await other.limiter.resumeByOrder()).toEqual(["quota"]);
  await clock.advance(4_000);
  (await one.limiter.enter(poll)).settle(answered);
  expect(one.limiter.state().stops).toMatchObject({ quota: null });
});

test("while a step gives slots back, a process does not use them", async () => {
  const { clock, join } = createParties();
  const caps = { requests: 12, messages: 1 };
  const [one, other] = [join({ caps }, { delay: () => 700 }), join({ caps })];
  const times: number[] = [];
  const enter = ({ limiter }: Party, count: number): void => {
    for (let n = 0; n < count; n += 1)
      void limiter.enter(run).then((permit) => {
        times.push(clock.now());
        permit.settle(answered);
      });
  };
  const stop = new AbortController();
  enter(one, 1);
  for (let n = 0; n < 9; n += 1) one.limiter.enter({ ...run, signal: stop.signal }).catch(() => {});
  await clock.advance(0);
  stop.abort();
  await clock.advance(1_400);
  // The step of its next beat is stored, and the answer is on its way.
  await clock.advance(3_000 + 1_000);
  enter(other, 12);
  await clock.advance(0);
  enter(one, 12);
  await clock.advance(50_000);
  expect(times).toHaveLength(12);
});

const planned = fc.record({
  /** After the call before. */
  gap: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 30_000 })),
  party: fc.nat(3),
  operation: fc.constantFrom("messages", ...callOperations),
  took: fc.integer({ min: 0, max: 10_000 }),
  /**
   * Where between its dispatch and its end the service counts it; up to the end of the grace for a
   * lost one.
   */
  counted: fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
  fate: fc.constantFrom("answered", "answered", "answered", "unknown", "not-sent"),
  /** What happens to its process before it. */
  event: fc.constantFrom(
    "none",
    "none",
    "none",
    "none",
    "none",
    "kill",
    "down",
    "lost",
    "up",
    "slow",
  ),
});

test("no minute holds more calls than the caps, whatever the processes call, whichever die, and whatever becomes of their steps", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.record({
        requests: fc.integer({ min: 1, max: 12 }),
        messages: fc.integer({ min: 1, max: 6 }),
      }),
      fc.array(planned, { minLength: 1, maxLength: 60 }),
      fc.array(fc.integer({ min: -3_600_000, max: 3_600_000 }), { minLength: 4, maxLength: 4 }),
      async (caps, calls, ahead) => {
        const { clock, memory, join } = createParties();
        const delays: number[] = [0, 0, 0, 0];
        const open = (place: number) =>
          join({ caps, atOnce: 20 }, { ahead: ahead[place] ?? 0, delay: () => delays[place] ?? 0 });
        const parties = delays.map((_, place) => open(place));
        const total = { ...limitsOf(shareOf(caps, 1)), calls: 16, polling: 12 };
        const counted: Record<CallCap, number[]> = { requests: [], messages: [] };
        const waiting = new Set<Promise<unknown>>();
        const check = (): void => {
          const parts = memory.parts();
          for (const kind of slotKinds) expect(parts[kind]).toBeLessThanOrEqual(total[kind]);
        };
        for (const call of calls) {
          await clock.advance(call.gap);
          check();
          const party = parties[call.party] as Party;
          if (call.event === "kill") {
            party.kill();
            parties[call.party] = open(call.party);
          } else if (call.event === "up") party.fail = "no";
          else if (call.event === "slow") delays[call.party] = delays[call.party] === 0 ? 700 : 0;
          else if (call.event !== "none") party.fail = call.event as Party["fail"];
          const one = (parties[call.party] as Party).limiter
            .enter({ operation: call.operation })
            .then(
              (permit) => {
                const at =
                  clock.now() +
                  call.counted * (call.took + (call.fate === "unknown" ? graceMs : 0));
                if (call.fate !== "not-sent") {
                  counted.requests.push(at);
                  if (call.operation === "messages") counted.messages.push(at);
                }
                clock.after(call.took, () => permit.settle({ type: call.fate as "answered" }));
              },
              () => {},
            );
          waiting.add(one);
        }
        for (const party of parties) party.fail = "no";
        for (let minutes = 0; minutes < 100; minutes += 5) {
          await clock.advance(5 * windowMs);
          check();
        }
        expect(mostInAWindow(counted.requests)).toBeLessThanOrEqual(total.requests);
        expect(mostInAWindow(counted.messages)).toBeLessThanOrEqual(total.messages);
        for (const { limiter } of parties) {
          const { requests, messages } = limiter.state().caps;
          expect([requests.waiting, messages.waiting]).toEqual([
            { send: 0, poll: 0 },
            { send: 0, poll: 0 },
          ]);
        }
        await clock.advance(3_000);
        expect(memory.parts()).toEqual(limitsFrom(() => 0));
        expect(clock.pending()).toBe(0);
      },
    ),
    { numRuns: 30 },
  );
});
