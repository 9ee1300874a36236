import { describe, expect, test } from "vitest";
import { nextRenewal } from "../../../../src/service-api/renewal.ts";
import { answered, ask, permitOf, poll, refusalOf, run, send, setUp } from "./set-up.ts";

describe("a used-up quota", () => {
  test("turns away all, those that wait too, until its renewal, without a timer", async () => {
    const { clock, limiter, enter } = await setUp();
    const [first, ...others] = Array.from({ length: 15 }, () => enter(send));
    await clock.advance(0);
    if (first === undefined) throw new Error("no call");
    permitOf(first).settle({ type: "quota-used-up" });
    await clock.advance(0);
    expect(others.slice(9).map(refusalOf)).toEqual(Array.from({ length: 5 }, () => "quota"));
    for (const note of others.slice(0, 9)) permitOf(note).settle(answered);
    const until = nextRenewal(clock.now());
    expect(limiter.state().stops).toEqual({ quota: until, unauthenticated: null, blocked: null });
    const late = enter(poll);
    await clock.advance(0);
    expect(refusalOf(late)).toBe("quota");
    expect((late.got as { error: { failure: unknown } }).error.failure).toEqual({ kind: "quota", cause: null, until });
    expect(clock.pending()).toBe(0);
    await clock.advance(until - clock.now() - 1);
    expect(refusalOf(await settled(enter(poll), clock))).toBe("quota");
    await clock.advance(1);
    permitOf(await settled(enter(poll), clock)).settle(answered);
    expect(limiter.state().stops.quota).toBeNull();
  });

  test("resume ends it; what was under way before does not bring it back, a new answer does", async () => {
    const { clock, limiter, enter } = await setUp();
    const [one, two] = [enter(ask), enter(ask)];
    await clock.advance(0);
    permitOf(one).settle({ type: "quota-used-up" });
    limiter.resume();
    permitOf(two).settle({ type: "quota-used-up" });
    const three = await settled(enter(ask), clock);
    permitOf(three).settle({ type: "quota-used-up" });
    expect(refusalOf(await settled(enter(ask), clock))).toBe("quota");
  });
});

describe("a key that is refused", () => {
  test("one call tries after 30 s, 1, 2, 4, 8, 15, 15 min; all others are turned away; a good answer ends it", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(ask, { type: "unauthenticated" });
    const waits: number[] = [];
    for (let round = 0; round < 7; round += 1) {
      const until = limiter.state().stops.unauthenticated ?? Number.NaN;
      waits.push((until - clock.now()) / 1000);
      await clock.advance(until - clock.now() - 1);
      expect(refusalOf(await settled(enter(ask), clock))).toBe("unauthenticated");
      await clock.advance(1);
      const probe = await settled(enter(ask), clock);
      expect(refusalOf(await settled(enter(send), clock))).toBe("unauthenticated");
      permitOf(probe).settle({ type: "unauthenticated" });
    }
    expect(waits).toEqual([30, 60, 120, 240, 480, 900, 900]);
    await clock.advance(900_000);
    permitOf(await settled(enter(ask), clock)).settle(answered);
    expect(limiter.state().stops.unauthenticated).toBeNull();
    await settleOne(ask, { type: "unauthenticated" });
    expect(limiter.state().stops.unauthenticated).toBe(clock.now() + 30_000);
    expect(clock.pending()).toBe(0);
  });

  test("a per-minute 429 shows that the key is good, no answer shows nothing", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(ask, { type: "unauthenticated" });
    await clock.advance(30_000);
    for (const type of ["unknown", "not-sent"] as const) {
      permitOf(await settled(enter(ask), clock)).settle({ type });
      expect(limiter.state().stops.unauthenticated).toBe(clock.now() + 30_000);
      if (type === "unknown") await clock.advance(30_000);
    }
    await clock.advance(30_000);
    permitOf(await settled(enter(ask), clock)).settle({ type: "blocked" });
    expect(limiter.state().stops).toEqual({ quota: null, unauthenticated: clock.now() + 30_000, blocked: clock.now() + 60_000 });
    await clock.advance(30_000);
    expect(refusalOf(await settled(enter(ask), clock))).toBe("blocked");
    await clock.advance(30_000);
    permitOf(await settled(enter(ask), clock)).settle({ type: "rate-limited", cap: "messages", retryAfterMs: null, limit: null });
    expect(limiter.state().stops).toEqual({ quota: null, unauthenticated: null, blocked: null });
  });

  test("a try that gives up before it went leaves the try to the next", async () => {
    const { clock, limiter, enter, settleOne } = await setUp({ caps: { requests: 1, messages: 1 }, share: 1 });
    await settleOne(ask, { type: "unauthenticated" });
    await clock.advance(30_000);
    // The slot of the first call is still held, so that the try has to wait.
    const controller = new AbortController();
    const probe = enter({ ...ask, signal: controller.signal });
    expect(refusalOf(await settled(enter(ask), clock))).toBe("unauthenticated");
    controller.abort(new Error("enough"));
    const next = enter(ask);
    await clock.advance(30_000);
    expect(probe.got).toEqual({ error: new Error("enough") });
    permitOf(next).settle(answered);
    expect(limiter.state().stops.unauthenticated).toBeNull();
  });

  test("answers to calls that were under way change nothing, before and after", async () => {
    const { clock, limiter, enter } = await setUp();
    const [one, two, three, four] = [enter(ask), enter(ask), enter(ask), enter(ask)];
    await clock.advance(0);
    permitOf(one).settle({ type: "unauthenticated" });
    permitOf(two).settle({ type: "unauthenticated" });
    permitOf(three).settle(answered);
    expect(limiter.state().stops.unauthenticated).toBe(clock.now() + 30_000);
    await clock.advance(30_000);
    permitOf(await settled(enter(ask), clock)).settle(answered);
    permitOf(four).settle({ type: "unauthenticated" });
    expect(limiter.state().stops.unauthenticated).toBeNull();
  });

  test("another key in the settings ends it", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(ask, { type: "unauthenticated" });
    limiter.retune({ plan: "escala", share: 1 });
    expect(limiter.state().stops.unauthenticated).toBeNull();
    permitOf(await settled(enter(ask), clock)).settle(answered);
  });

  test("a wrong key from the start costs 5 calls, whatever waits: 20 a minute block the address", async () => {
    const { clock, enter } = await setUp({}, false);
    const notes = Array.from({ length: 100 }, () => enter(ask));
    await clock.advance(0);
    const went = notes.filter(({ got }) => got !== null);
    expect(went).toHaveLength(5);
    for (const note of went) permitOf(note).settle({ type: "unauthenticated" });
    await clock.advance(0);
    expect(notes.filter(({ got }) => got !== null && "error" in got)).toHaveLength(95);
  });

  test("a good one: all go with the first answer", async () => {
    const { clock, enter } = await setUp({}, false);
    const notes = Array.from({ length: 100 }, () => enter(ask));
    await clock.advance(0);
    permitOf(notes[0] as (typeof notes)[0]).settle(answered);
    await clock.advance(0);
    expect(notes.filter(({ got }) => got !== null)).toHaveLength(100);
  });
});

test("a blocked address: all are turned away for 60 s", async () => {
  const { clock, limiter, enter, settleOne } = await setUp({ caps: { requests: 2, messages: 1 }, share: 1 });
  const [under, waiting] = [enter(run), enter(run), enter(run)].slice(1) as [ReturnType<typeof enter>, ReturnType<typeof enter>];
  await clock.advance(0);
  permitOf(under).settle({ type: "blocked" });
  await clock.advance(0);
  expect(refusalOf(waiting)).toBe("blocked");
  expect(limiter.state().stops.blocked).toBe(clock.now() + 60_000);
  await clock.advance(59_999);
  expect(refusalOf(await settled(enter(run), clock))).toBe("blocked");
  await clock.advance(1);
  await settleOne(run, answered);
  expect(limiter.state().stops).toEqual({ quota: null, unauthenticated: null, blocked: null });
});

test("hooks hear of every end, of calls turned away, and of each stop once", async () => {
  const heard: string[] = [];
  const { clock, enter } = await setUp({
    hooks: {
      settled: ({ priority }, { type }) => heard.push(`settled ${priority} ${type}`),
      refused: (reason) => heard.push(`refused ${reason}`),
      stopped: (reason, until) => heard.push(`stopped ${reason} ${until - clock.now()}`),
    },
  });
  heard.length = 0;
  const [one, two] = [enter(ask), enter(poll)];
  await clock.advance(0);
  permitOf(one).settle({ type: "blocked" });
  permitOf(two).settle({ type: "blocked" });
  await settled(enter(send), clock);
  expect(heard).toEqual(["settled ask blocked", "stopped blocked 60000", "settled poll blocked", "refused blocked"]);
});

async function settled<T>(note: T, clock: { advance(ms: number): Promise<void> }): Promise<T> {
  await clock.advance(0);
  return note;
}
