import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CallOutcome } from "../../../../src/service/endpoints.ts";
import { planCaps } from "../../../../src/service/limits/caps.ts";
import { createLimiter, type DispatchedCall } from "../../../../src/service/limits/limiter.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";
import { answered, permitOf, poll, run, send, setUp } from "./set-up.ts";

const rateLimited = (
  more: Partial<Extract<CallOutcome, { type: "rate-limited" }>> = {},
): CallOutcome => ({
  type: "rate-limited",
  cap: "messages",
  retryAfterMs: null,
  limit: null,
  ...more,
});

describe("spread over the minute", () => {
  test("messages: a sixth of the cap at once, then an even pace, and never more than the cap in a minute", async () => {
    const { clock, enterAnswered } = await setUp();
    const times = enterAnswered(120, send);
    await clock.advance(0);
    expect(times).toEqual(Array.from({ length: 10 }, () => 0));
    await clock.advance(59_999);
    // 10 at once, 1 a second after: the cap of 60 is reached at 50 s, and the first come back at 60
    // s.
    expect(times.slice(10)).toEqual(Array.from({ length: 50 }, (_, n) => (n + 1) * 1000));
    await clock.advance(1);
    expect(times.slice(60)).toEqual(Array.from({ length: 10 }, () => 60_000));
  });

  test("polls: a sixth of what polls may use, then an even pace", async () => {
    const { clock, enterAnswered } = await setUp();
    const times = enterAnswered(300, poll);
    await clock.advance(0);
    expect(times).toHaveLength(36);
    await clock.advance(10_000);
    expect(times).toHaveLength(36 + 36);
    await clock.advance(49_999);
    expect(times).toHaveLength(216);
  });

  test("runs go at once while there are slots", async () => {
    const { clock, enterAnswered } = await setUp();
    const runs = enterAnswered(500, run);
    await clock.advance(0);
    expect(runs).toHaveLength(300);
    await clock.advance(60_000);
    expect(runs).toHaveLength(500);
  });
});

describe("order", () => {
  test("a flood of polls delays no message", async () => {
    const { clock, limiter, enterAnswered } = await setUp();
    enterAnswered(2000, poll);
    const waits: number[] = [];
    for (let second = 0; second < 130; second += 1) {
      const asked = clock.now();
      void limiter.enter(send).then((permit) => {
        waits.push(clock.now() - asked);
        permit.settle(answered);
      });
      await clock.advance(1000);
    }
    expect(waits).toEqual(Array.from({ length: 130 }, () => 0));
    expect(limiter.state().caps.requests.waiting.poll).toBeGreaterThan(1000);
  });

  test("a run does not wait behind a minute full of polls", async () => {
    const { clock, enterAnswered } = await setUp();
    enterAnswered(1000, poll);
    await clock.advance(59_000);
    const runs = enterAnswered(30, run);
    await clock.advance(0);
    expect(runs).toHaveLength(30);
  });

  test("sends, then polls, and in order of arrival in each", async () => {
    const { clock, limiter } = await setUp({ caps: { requests: 1, messages: 1 }, share: 1 });
    const went: string[] = [];
    const calls = [
      ["poll 1", poll],
      ["send 1", send],
      ["poll 2", poll],
      ["run 2", run],
      ["send 3", send],
    ] as const;
    // One holds the only slot, so that all the others have to wait.
    (await limiter.enter(run)).settle(answered);
    for (const [name, call] of calls) {
      void limiter.enter(call).then((permit) => {
        went.push(name);
        permit.settle(answered);
      });
    }
    await clock.advance(8 * 60_000);
    expect(went).toEqual(["send 1", "run 2", "send 3", "poll 1", "poll 2"]);
  });

  test("a send that waits for the messages cap holds up neither runs nor polls", async () => {
    const { clock, enter, enterAnswered } = await setUp();
    enterAnswered(20, send);
    await clock.advance(0);
    const behind = [enter(run), enter(poll)];
    await clock.advance(0);
    for (const note of behind) expect(permitOf(note)).toBeDefined();
  });
});

describe("calls in flight", () => {
  test("are at most eight, six of them polls; waiting calls go as others end, sends first", async () => {
    const { clock, enter } = await setUp({ atOnce: 8 });
    const polls = Array.from({ length: 10 }, () => enter(poll));
    await clock.advance(0);
    const gone = (notes: readonly { got: unknown }[]) =>
      notes.filter(({ got }) => got !== null).length;
    expect(gone(polls)).toBe(6);
    const sends = Array.from({ length: 4 }, () => enter(send));
    await clock.advance(60_000);
    expect([gone(polls), gone(sends)]).toEqual([6, 2]);
    for (const note of polls.slice(0, 3)) permitOf(note).settle(answered);
    await clock.advance(0);
    expect([gone(polls), gone(sends)]).toEqual([7, 4]);
    expect(clock.pending()).toBe(0);
    permitOf(sends[0] as (typeof sends)[0]).settle({ type: "not-sent" });
    await clock.advance(0);
    // The place of a send that ended is anybody's again.
    expect(gone(polls)).toBe(8);
  });

  test("are at most the number set, and at least one may be a poll", async () => {
    const { clock, enter } = await setUp({ atOnce: 2 });
    const polls = [enter(poll), enter(poll)];
    const sends = [enter(send), enter(send)];
    await clock.advance(60_000);
    expect([...polls, ...sends].map(({ got }) => got !== null)).toEqual([true, false, true, false]);
  });
});

describe("slots", () => {
  test("are held until 60 s after the call's end, and 30 s longer when its outcome is unknown", async () => {
    const { clock, limiter, enter } = await setUp({ caps: { requests: 3, messages: 1 }, share: 1 });
    const [first, second, third] = [enter(run), enter(run), enter(run)];
    await clock.advance(100_000);
    expect(limiter.state().caps.requests.used).toBe(3);
    permitOf(first).settle(answered);
    permitOf(second).settle({ type: "unknown" });
    await clock.advance(59_999);
    expect(limiter.state().caps.requests.used).toBe(3);
    await clock.advance(1);
    expect(limiter.state().caps.requests.used).toBe(2);
    await clock.advance(29_999);
    expect(limiter.state().caps.requests.used).toBe(2);
    await clock.advance(1);
    expect(limiter.state().caps.requests.used).toBe(1);
    permitOf(third).settle(answered);
    permitOf(third).settle(answered);
    await clock.advance(60_000);
    expect(limiter.state().caps.requests.used).toBe(0);
  });

  test("of a call that was never sent are free at once for waiting calls", async () => {
    const { clock, limiter, enter } = await setUp({ caps: { requests: 2, messages: 1 }, share: 1 });
    const notSent = enter(run);
    const other = enter(run);
    const waiting = enter(run);
    await clock.advance(1_000);
    expect([notSent.got, waiting.got]).toEqual([expect.anything(), null]);
    permitOf(notSent).settle({ type: "not-sent" });
    await clock.advance(0);
    expect(waiting.got).toMatchObject({ at: 1_000 });
    permitOf(other).settle(answered);
    permitOf(waiting).settle({ type: "not-sent" });
    expect(limiter.state().caps.requests.used).toBe(1);
    await clock.advance(60_000);
    expect([limiter.state().caps.requests.used, clock.pending()]).toEqual([0, 0]);
  });

  test("of sends that were never sent are free, but the pace of sends still applies", async () => {
    const { clock, limiter } = await setUp();
    const times: number[] = [];
    const from = clock.now();
    for (let n = 0; n < 15; n += 1) {
      void limiter.enter(send).then((permit) => {
        times.push(clock.now() - from);
        permit.settle({ type: "not-sent" });
      });
    }
    await clock.advance(5_000);
    expect(times).toEqual([
      ...Array.from({ length: 10 }, () => 0),
      1_000,
      2_000,
      3_000,
      4_000,
      5_000,
    ]);
    expect(limiter.state().caps.messages.used).toBe(0);
  });

  test("a clock set back makes no call wait longer", async () => {
    const { clock, limiter } = await setUp({ caps: { requests: 1, messages: 1 }, share: 1 });
    let setBack = 0;
    const wall = { ...clock, now: () => clock.now() - setBack };
    const own = await setUp({ caps: { requests: 1, messages: 1 }, share: 1, clock: wall }, false);
    (await own.limiter.enter(run)).settle(answered);
    setBack = 3_600_000;
    let went = false;
    void own.limiter.enter(run).then(() => {
      went = true;
    });
    await clock.advance(60_001);
    expect(went).toBe(true);
    expect(limiter.state().caps.requests.used).toBe(0);
  });
});

describe("aborting", () => {
  test("leaves the line, its listener and the timer behind", async () => {
    const { clock, limiter } = await setUp({ caps: { requests: 1, messages: 1 }, share: 1 });
    (await limiter.enter(run)).settle(answered);
    const controller = new AbortController();
    const { signal } = controller;
    const given = Promise.allSettled(
      [poll, run, send].map((call) => limiter.enter({ ...call, signal })),
    );
    await clock.advance(1000);
    expect(clock.pending()).toBe(1);
    const { caps } = limiter.state();
    expect([caps.messages.waiting, caps.requests.waiting]).toEqual([
      { send: 1, poll: 0 },
      { send: 1, poll: 1 },
    ]);
    const reason = new Error("enough");
    controller.abort(reason);
    expect((await given).map((each) => each.status === "rejected" && each.reason)).toEqual([
      reason,
      reason,
      reason,
    ]);
    expect(limiter.state().caps.requests.waiting).toEqual({ send: 0, poll: 0 });
    expect(clock.pending()).toBe(0);
    // Those behind go on.
    await clock.advance(60_000);
    (await limiter.enter(run)).settle(answered);
  });

  test("before the call: rejects at once and takes no slot", async () => {
    const { limiter } = await setUp();
    await expect(limiter.enter({ ...send, signal: AbortSignal.abort("no") })).rejects.toBe("no");
    expect(limiter.state().caps.requests.used).toBe(0);
  });

  test("after the dispatch: changes nothing", async () => {
    const { limiter } = await setUp();
    const controller = new AbortController();
    const permit = await limiter.enter({ ...send, signal: controller.signal });
    controller.abort();
    expect(limiter.state().caps.messages.used).toBe(1);
    permit.settle(answered);
  });
});

describe("a 429 of a cap", () => {
  test("holds that cap for as long as the header requests; the other continues", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(send, rateLimited({ retryAfterMs: 20_000 }));
    const [message, request] = [enter(send), enter(run)];
    await clock.advance(19_999);
    expect(message.got).toBeNull();
    expect(permitOf(request)).toBeDefined();
    expect(limiter.state().caps.messages.heldUntil).toBe(clock.now() + 1);
    expect(limiter.state().caps.requests.heldUntil).toBeNull();
    await clock.advance(1);
    expect(permitOf(message)).toBeDefined();
    expect(limiter.state().caps.messages.heldUntil).toBeNull();
  });

  test("calls that are ready before the hold's end do not wait for its timer", async () => {
    const { clock, enter, enterAnswered, settleOne } = await setUp();
    await settleOne(send, rateLimited());
    enter(send);
    await clock.advance(1);
    const polls = enterAnswered(37, poll);
    await clock.advance(300);
    expect(polls).toHaveLength(37);
  });

  test("of an unknown cap holds both, for a minute without a header", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(send, rateLimited({ cap: null }));
    const notes = [enter(send), enter(run), enter(poll)];
    await clock.advance(59_999);
    expect(notes.map(({ got }) => got)).toEqual([null, null, null]);
    expect(Object.values(limiter.state().caps).map(({ heldUntil }) => heldUntil)).toEqual([
      clock.now() + 1,
      clock.now() + 1,
    ]);
    await clock.advance(1);
    for (const note of notes) expect(permitOf(note)).toBeDefined();
  });

  test("holds for at least a second and at most an hour", async () => {
    const { clock, limiter, settleOne } = await setUp();
    const holds: number[] = [];
    for (const retryAfterMs of [0, 60_000, null, 1e15]) {
      await settleOne(send, rateLimited({ retryAfterMs }));
      const wait = (limiter.state().caps.messages.heldUntil ?? Number.NaN) - clock.now();
      holds.push(wait / 1000);
      await clock.advance(wait);
    }
    expect(holds).toEqual([1, 60, 60, 3600]);
  });

  test("holds grow up to a minute until a call passes, whatever the header requests", async () => {
    const { clock, limiter, settleOne } = await setUp();
    const holds: number[] = [];
    for (const outcome of [
      ...Array.from({ length: 8 }, () => rateLimited({ retryAfterMs: 1_000 })),
      answered,
      rateLimited({ retryAfterMs: 1_000 }),
    ]) {
      await settleOne(send, outcome);
      const wait = Math.max(0, (limiter.state().caps.messages.heldUntil ?? 0) - clock.now());
      holds.push(wait / 1000);
      await clock.advance(wait);
    }
    expect(holds).toEqual([1, 2, 4, 8, 16, 32, 60, 60, 0, 1]);
  });

  test("several at once count as one, and the longest counts", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    const notes = Array.from({ length: 8 }, () => enter(send));
    await clock.advance(0);
    for (const [place, note] of notes.entries())
      permitOf(note).settle(rateLimited({ retryAfterMs: 30_000 - place }));
    expect(limiter.state().caps.messages.heldUntil).toBe(clock.now() + 30_000);
    await clock.advance(30_000);
    await settleOne(send, rateLimited({ retryAfterMs: 1_000 }));
    expect(limiter.state().caps.messages.heldUntil).toBe(clock.now() + 2_000);
  });
});

test("new settings change the limits, and used slots stay used", async () => {
  const { clock, limiter, enter, enterAnswered } = await setUp({
    caps: planCaps.escala,
    share: 0.5,
  });
  enterAnswered(150, run);
  await clock.advance(0);
  const waiting = enter(run);
  await clock.advance(0);
  expect(waiting.got).toBeNull();
  limiter.retune({ caps: planCaps.escala, share: 0.6 });
  await clock.advance(0);
  expect(permitOf(waiting)).toBeDefined();
  expect(limiter.state().caps.requests).toMatchObject({ limit: 180, used: 151 });
  limiter.retune({ caps: planCaps.escala, share: 0.1 });
  const later = enter(run);
  await clock.advance(59_999);
  expect(later.got).toBeNull();
  await clock.advance(1);
  expect(permitOf(later)).toBeDefined();
});

describe("calls of an earlier process", () => {
  test("count until a minute after their latest possible end, against the same caps as before", async () => {
    const recentOf = (count: number, at: number) =>
      Array.from({ length: count }, () => ({ operation: "messages", at }) as const);
    const clock = createManualClock();
    const limiter = createLimiter({
      caps: planCaps.escala,
      share: 1,
      clock,
      recent: recentOf(58, clock.now() - 5_000),
    });
    expect(limiter.state().caps).toMatchObject({ messages: { used: 58 }, requests: { used: 58 } });
    let went = 0;
    for (let n = 0; n < 5; n += 1) {
      void limiter.enter(send).then((permit) => {
        went += 1;
        permit.settle(answered);
      });
    }
    await clock.advance(59_999);
    expect(went).toBe(2);
    // Ours come back first: those of the other may have ended 10 s after they went.
    await clock.advance(5_000);
    expect(went).toBe(4);
    await clock.advance(1);
    expect(went).toBe(5);
  });

  test("a relay that crashes repeatedly keeps the caps of every minute", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.integer({ min: 0, max: 40_000 }), { minLength: 1, maxLength: 12 }),
        async (lives) => {
          const clock = createManualClock();
          const made: DispatchedCall[] = [];
          for (const life of lives) {
            const death = new AbortController();
            const recent = made.filter(({ at }) => at > clock.now() - 180_000);
            const limiter = createLimiter({
              caps: planCaps.escala,
              share: 0.5,
              clock,
              recent,
              hooks: { dispatched: (call) => void made.push(call) },
            });
            for (const call of [send, run, poll]) {
              for (let n = 0; n < 40; n += 1) {
                limiter.enter({ ...call, signal: death.signal }).then(
                  (permit) => permit.settle(answered),
                  () => {},
                );
              }
            }
            await clock.advance(life);
            death.abort();
          }
          for (const { at } of made) {
            const minute = made.filter((call) => call.at >= at && call.at < at + 60_000);
            expect(minute.length).toBeLessThanOrEqual(150);
            expect(
              minute.filter(({ operation }) => operation === "messages").length,
            ).toBeLessThanOrEqual(30);
          }
        },
      ),
      { numRuns: 30 },
    );
  });
});
