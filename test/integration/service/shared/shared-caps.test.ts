import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { quotaMonth } from "../../../../src/service/renewal.ts";
import { type Redis, startRedis } from "../../../setup/redis.ts";
import { answered, ask, createParties, enter, keepCalling, mostInAWindow, permitOf, poll, refusalOf, run, send } from "./processes.ts";

let server: Redis;
let parties: ReturnType<typeof createParties>;

beforeAll(async () => {
  server = await startRedis();
  parties = createParties(server.url);
});
afterAll(async () => {
  parties.close();
  await server.stop();
});

const minute = 60_000;
const kinds = [send, ask, poll];

describe("the caps", () => {
  test("three processes together use as much as one, each its part", async () => {
    const small = { caps: { requests: 60, messages: 12 }, share: 1 } as const;
    const { clock, join } = parties.newAccount();
    const each = [join(small), join(small), join(small)].map((party) => kinds.map((call) => keepCalling(clock, party, call, 6)));
    await clock.advance(5 * minute);
    const requests = each.flat(2);
    const messages = each.flatMap(([sends]) => sends ?? []);
    expect(mostInAWindow(requests)).toBeLessThanOrEqual(60);
    expect(mostInAWindow(messages)).toBeLessThanOrEqual(12);

    const alone = parties.newAccount();
    const one = alone.join({ ...small, shared: undefined });
    const own = kinds.map((call) => keepCalling(alone.clock, one, call, 18));
    await alone.clock.advance(5 * minute);
    expect(requests.length).toBeGreaterThanOrEqual(0.9 * own.flat().length);
    for (const [index, times] of own.entries()) {
      const shares = each.map((of) => of[index]?.length ?? 0);
      expect(shares.reduce((sum, count) => sum + count)).toBeGreaterThanOrEqual(0.9 * times.length);
      for (const share of shares) expect(share).toBeGreaterThanOrEqual(times.length / 6);
    }
  });

  test("a sender does not wait for pollers of another process", async () => {
    const { clock, join } = parties.newAccount();
    const [sender, ...pollers] = [join(), join(), join()];
    const polls = pollers.flatMap((party) => [keepCalling(clock, party, poll, 8), keepCalling(clock, party, ask, 8)]);
    const waits: number[] = [];
    for (let second = 0; second < 130; second += 1) {
      const asked = clock.now();
      void sender.limiter.enter(send).then((permit) => {
        waits.push(clock.now() - asked);
        permit.settle(answered);
      });
      await clock.advance(1000);
    }
    expect(waits).toHaveLength(130);
    expect(Math.max(...waits)).toBe(0);
    expect(polls.flat().length).toBeGreaterThan(240 + 216);
  });

  test("with a tiny share a send is next, then the longest waiting call", async () => {
    const { clock, join } = parties.newAccount();
    const tiny = { caps: { requests: 1, messages: 1 }, share: 1 } as const;
    const [first, second, third] = [join(tiny), join(tiny), join(tiny)];
    permitOf(await rested(clock, enter(clock, first, run))).settle(answered);
    await clock.advance(1);
    const waiting = [enter(clock, first, poll)];
    await clock.advance(10);
    waiting.push(enter(clock, second, poll));
    await clock.advance(10);
    waiting.push(enter(clock, third, send));
    const order: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      await clock.advance(minute);
      for (const [index, note] of waiting.entries()) {
        if (note.got === null || order.includes(index)) continue;
        order.push(index);
        permitOf(note).settle(answered);
        await clock.advance(0);
      }
    }
    expect(order).toEqual([2, 0, 1]);
  });

  test("limits calls in flight over all processes: five until the key is known to work, then sixteen", async () => {
    const { clock, join } = parties.newAccount();
    const all = [join(), join(), join()];
    const notes = all.flatMap((party) => Array.from({ length: 8 }, () => enter(clock, party, run)));
    await clock.advance(200);
    const gone = () => notes.filter(({ got }) => got !== null);
    expect(gone()).toHaveLength(5);
    permitOf(gone()[0] as (typeof notes)[0]).settle(answered);
    await clock.advance(200);
    // The one that ended is among those that went.
    expect(gone()).toHaveLength(17);
  });

  test("holds a slot for a minute after the call, 30 s longer for an unknown outcome, and not at all for an unsent call", async () => {
    const { clock, join } = parties.newAccount();
    const caps = { caps: { requests: 3, messages: 1 }, share: 1 } as const;
    const [one, other] = [join(caps), join(caps)];
    const notes = [enter(clock, one, run), enter(clock, one, run), enter(clock, one, run)];
    await clock.advance(0);
    const ends = ["answered", "unknown", "not-sent"] as const;
    for (const [index, type] of ends.entries()) permitOf(notes[index] as (typeof notes)[0]).settle({ type });
    await clock.advance(0);
    const used: number[] = [];
    for (const ms of [0, 59_999, 1, 29_999, 1]) {
      await clock.advance(ms);
      // Shown is what the last step told; a call makes one at once.
      const asked = await rested(clock, enter(clock, other, run));
      if (asked.got !== null && "permit" in asked.got) asked.got.permit.settle({ type: "not-sent" });
      await clock.advance(0);
      used.push(other.limiter.state().caps.requests.used);
    }
    expect(used).toEqual([2, 2, 1, 1, 0]);
  });

  test("counts the slot of a killed process as long as that of an unknown outcome", async () => {
    const { clock, join } = parties.newAccount();
    const caps = { caps: { requests: 1, messages: 1 }, share: 1 } as const;
    const [dying, other] = [join(caps), join(caps)];
    permitOf(await rested(clock, enter(clock, dying, run)));
    dying.kill();
    const waiting = enter(clock, other, run);
    await clock.advance(149_999);
    expect(waiting.got).toBeNull();
    await clock.advance(1);
    permitOf(waiting).settle(answered);
  });

  test("returns a killed process's slots after a minute of silence, the grace, and a minute of counting", async () => {
    const { clock, join } = parties.newAccount();
    const caps = { caps: { requests: 3, messages: 1 }, share: 1 } as const;
    const [dying, other] = [join(caps), join(caps)];
    permitOf(await rested(clock, enter(clock, dying, run)));
    permitOf(await rested(clock, enter(clock, dying, run)));
    // Renewed while it lives, however long the calls take.
    await clock.advance(10 * minute);
    expect(await seen(clock, other)).toMatchObject({ requests: { used: 2 } });
    dying.kill();
    await clock.advance(129_000);
    expect(await seen(clock, other)).toMatchObject({ requests: { used: 2 } });
    await clock.advance(21_000);
    expect(await seen(clock, other)).toMatchObject({ requests: { used: 0 } });
  });

  test("an idle process holds nothing, and a grant to a process that left is returned", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    const controller = new AbortController();
    const asked = enter(clock, one, { ...run, signal: controller.signal });
    // The step is on its way.
    controller.abort(new Error("enough"));
    await clock.advance(0);
    expect(asked.got).toEqual({ error: new Error("enough") });
    expect(await seen(clock, other)).toMatchObject({ requests: { used: 0 }, messages: { used: 0 } });
    await clock.advance(minute);
    expect(clock.pending()).toBe(0);
  });
});

describe("what one process observes", () => {
  test("a used-up quota stops all until its renewal or another plan in the settings", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    // Those of the other that wait meanwhile are turned away, too.
    const waiting = Array.from({ length: 12 }, () => enter(clock, other, send));
    const call = await rested(clock, enter(clock, one, ask));
    for (const note of waiting.slice(0, 4)) permitOf(note).settle(answered);
    await clock.advance(200);
    permitOf(call).settle({ type: "quota-used-up", resource: "apiCalls", serviceTime: clock.now() });
    await clock.advance(1_000);
    for (const note of waiting) if (note.got !== null && "permit" in note.got) note.got.permit.settle(answered);
    await clock.advance(1_000);
    expect(waiting.filter((note) => refusalOf(note) === "quota").length).toBeGreaterThan(0);
    const until = quotaMonth(clock.now()).until;
    for (const party of [one, other, join()]) {
      // The first call of a process that has just begun goes to see what is known, and no further.
      expect(refusalOf(await rested(clock, enter(clock, party, poll)))).toBe("quota");
      expect(party.limiter.state().stops.quota).toBe(until);
    }
    const richer = join({ plan: "enterprise" });
    permitOf(await rested(clock, enter(clock, richer, poll))).settle(answered);
  });

  test("one call of all processes per hour probes an uncertain renewal; an answer ends the stop for all", async () => {
    const { clock, join } = parties.newAccount();
    const all = [join(), join(), join()];
    const [first] = all;
    if (first === undefined) throw new Error("no process");
    const refused = { type: "quota-used-up", resource: "automationSteps", serviceTime: clock.now() } as const;
    permitOf(await rested(clock, enter(clock, first, run))).settle(refused);
    await clock.advance(6_000);
    const tries: number[] = [];
    const until = first.limiter.state().stops["quota-runs"] ?? 0;
    expect(until - clock.now()).toBeLessThanOrEqual(60 * minute);
    for (let n = 0; n < 12; n += 1) {
      const notes = all.flatMap((party) => [enter(clock, party, run), enter(clock, party, run)]);
      const sends = all.map((party) => enter(clock, party, send));
      await clock.advance(100);
      for (const note of sends) permitOf(note).settle(answered);
      const gone = notes.filter(({ got }) => got !== null && "permit" in got);
      tries.push(gone.length);
      for (const note of gone) permitOf(note).settle(refused);
      await clock.advance(21 * minute - 100);
    }
    expect(tries).toEqual([0, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0]);
    permitOf(await rested(clock, enter(clock, first, run))).settle(answered);
    await clock.advance(6_000);
    for (const party of all) {
      permitOf(await rested(clock, await twice(clock, party))).settle(answered);
      expect(party.limiter.state().stops["quota-runs"]).toBeNull();
    }
  });

  test("another process probes two minutes after the probing process was killed", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    permitOf(await rested(clock, enter(clock, one, run))).settle({ type: "quota-used-up", resource: null, serviceTime: null });
    await clock.advance(60 * minute);
    permitOf(await rested(clock, enter(clock, one, run)));
    one.kill();
    other.limiter.state();
    await clock.advance(100_000);
    expect(refusalOf(await rested(clock, enter(clock, other, run)))).toBe("quota");
    await clock.advance(21_000);
    permitOf(await rested(clock, enter(clock, other, run))).settle(answered);
    expect(other.limiter.state().stops["quota-runs"]).toBeNull();
  });

  test("a command at one process ends the stops of all and reports them; a smaller cap grows back for all", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    permitOf(await rested(clock, enter(clock, one, run))).settle({ type: "quota-used-up", resource: "apiCalls", serviceTime: clock.now() });
    await clock.advance(1_000);
    // One that has just begun, and has called nothing yet.
    const fresh = join();
    const ended = fresh.limiter.resumeByOrder();
    await clock.advance(1_000);
    expect(await ended).toEqual(["quota"]);
    await clock.advance(6_000);
    permitOf(await rested(clock, await twice(clock, other))).settle({
      type: "rate-limited",
      cap: "requests",
      retryAfterMs: 1_000,
      limit: 2,
    });
    await clock.advance(6_000);
    for (const party of [one, other]) {
      // What an idle process knows is as old as its last step.
      await rested(clock, enter(clock, party, run));
      permitOf(await rested(clock, enter(clock, party, run))).settle(answered);
      expect(party.limiter.state().caps.requests).toMatchObject({ granted: 30, limit: 30 });
    }
    await clock.advance(30 * minute);
    for (const party of [one, other]) expect(party.limiter.state().caps.requests).toMatchObject({ granted: 120, limit: 120 });
    await clock.advance(30 * minute);
    for (const party of [one, other]) expect(party.limiter.state().caps.requests).toMatchObject({ granted: 300, limit: 300 });
    other.fail = "down";
    const failing = other.limiter.resumeByOrder();
    const failed = expect(failing).rejects.toMatchObject({ kind: "caps-unknown" });
    await clock.advance(2_000);
    await failed;
  });

  test("with a refused key all wait and one call tries it; a process with another key continues", async () => {
    const { clock, join } = parties.newAccount();
    const all = [join({ keyId: "old" }), join({ keyId: "old" }), join({ keyId: "old" })];
    const [first] = all;
    if (first === undefined) throw new Error("no process");
    permitOf(await rested(clock, enter(clock, first, ask))).settle({ type: "unauthenticated" });
    await clock.advance(1_000);
    for (const party of all) expect(refusalOf(await rested(clock, enter(clock, party, ask)))).toBe("unauthenticated");
    const tries: number[] = [];
    for (let n = 0; n < 4; n += 1) {
      await clock.advance(30_000 * 2 ** n);
      const notes = all.flatMap((party) => [enter(clock, party, ask), enter(clock, party, send)]);
      await clock.advance(0);
      const gone = notes.filter(({ got }) => got !== null && "permit" in got);
      tries.push(gone.length);
      expect(notes.filter((note) => refusalOf(note) === "unauthenticated")).toHaveLength(notes.length - 1);
      for (const note of gone) permitOf(note).settle({ type: n < 3 ? "unauthenticated" : "answered" });
      await clock.advance(0);
    }
    expect(tries).toEqual([1, 1, 1, 1]);
    await clock.advance(5_000);
    for (const party of all) permitOf(await rested(clock, await twice(clock, party))).settle(answered);

    permitOf(await rested(clock, enter(clock, first, ask))).settle({ type: "unauthenticated" });
    const renewed = join({ keyId: "new" });
    permitOf(await rested(clock, enter(clock, renewed, ask))).settle(answered);
    expect(refusalOf(await rested(clock, enter(clock, first, ask)))).toBe("unauthenticated");
  });

  test("another process tries two minutes after the trying process was killed", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    permitOf(await rested(clock, enter(clock, one, ask))).settle({ type: "unauthenticated" });
    await clock.advance(30_000);
    permitOf(await rested(clock, enter(clock, one, ask)));
    one.kill();
    expect(refusalOf(await rested(clock, await twice(clock, other)))).toBe("unauthenticated");
    await clock.advance(119_000);
    expect(refusalOf(await rested(clock, enter(clock, other, ask)))).toBe("unauthenticated");
    await clock.advance(1_001);
    permitOf(await rested(clock, enter(clock, other, ask))).settle(answered);
    expect(other.limiter.state().stops.unauthenticated).toBeNull();
  });

  test("a 429 of a cap holds all, a blocked address stops all, and a smaller cap counts for all", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    permitOf(await rested(clock, enter(clock, one, send))).settle({
      type: "rate-limited",
      cap: "messages",
      retryAfterMs: 20_000,
      limit: 30,
    });
    await clock.advance(0);
    const [message, request] = [enter(clock, other, send), enter(clock, other, run)];
    await clock.advance(19_000);
    expect(message.got).toBeNull();
    expect(other.limiter.state().caps.messages).toMatchObject({ granted: 30, limit: 30, heldUntil: clock.now() + 1_000 });
    permitOf(request).settle(answered);
    await clock.advance(1_000);
    permitOf(message).settle({ type: "blocked" });
    await clock.advance(0);
    expect(refusalOf(await rested(clock, await twice(clock, one)))).toBe("blocked");
    await clock.advance(minute);
    permitOf(await rested(clock, enter(clock, one, run))).settle(answered);
  });
});

describe("Redis unavailable", () => {
  test("dispatches nothing and rejects waiting calls at once; calls in flight count afterwards; it recovers", async () => {
    const { clock, join } = parties.newAccount();
    const caps = { caps: { requests: 3, messages: 1 }, share: 1 } as const;
    const [one, other] = [join(caps), join(caps)];
    const underWay = await rested(clock, enter(clock, one, run));
    one.fail = "down";
    expect(refusalOf(await rested(clock, enter(clock, one, run)))).toBe("caps-unknown");
    expect(enter(clock, one, run)).toBeDefined();
    permitOf(underWay).settle(answered);
    await clock.advance(5_000);
    expect(refusalOf(await rested(clock, enter(clock, one, run)))).toBe("caps-unknown");
    // What is under way for all that others know counts.
    expect(await seen(clock, other)).toMatchObject({ requests: { used: 1 } });
    one.fail = "no";
    await clock.advance(1_000);
    permitOf(await rested(clock, enter(clock, one, run))).settle(answered);
    await clock.advance(minute - 7_000);
    expect(await seen(clock, other)).toMatchObject({ requests: { used: 1 } });
  });

  test("a lost answer leaks no slot", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    one.fail = "lost";
    expect(refusalOf(await rested(clock, enter(clock, one, send)))).toBe("caps-unknown");
    one.fail = "no";
    other.limiter.state();
    await clock.advance(0);
    expect(other.limiter.state().caps).toMatchObject({ requests: { used: 1 } });
    expect(await seen(clock, other)).toMatchObject({ requests: { used: 0 }, messages: { used: 0 } });
  });

  test("after Redis lost its data, no process calls until earlier calls no longer count", async () => {
    const { clock, join } = parties.newAccount();
    const [one, other] = [join(), join()];
    permitOf(await rested(clock, enter(clock, one, send))).settle(answered);
    await clock.advance(1_000);
    await parties.redis.flushall();
    const again = enter(clock, one, send);
    await clock.advance(50_000);
    expect(again.got).toBeNull();
    const late = enter(clock, other, run);
    await clock.advance(40_000);
    permitOf(again).settle(answered);
    permitOf(late).settle(answered);
  });

  test("uses the clock of Redis by default", async () => {
    const { createRedisCaps } = await import("../../../../src/store/redis/shared-limits.ts");
    const { createLimiter } = await import("../../../../src/service/limits/limiter.ts");
    const { systemClock } = await import("../../../../src/model/system-clock.ts");
    const link = { run: <T>(use: (redis: typeof parties.redis) => Promise<T>) => use(parties.redis) };
    const make = (late: number) =>
      createLimiter({
        caps: { requests: 3, messages: 1 },
        share: 1,
        // Its clock is an hour off.
        clock: { ...systemClock, now: () => Date.now() + late },
        shared: createRedisCaps(link, "relay-own-clock", "main", "https://messaging.example"),
      });
    const [one, other] = [make(0), make(3_600_000)];
    for (const limiter of [one, other, one]) (await limiter.enter(run)).settle(answered);
    const gaveUp = new Error("enough");
    const controller = new AbortController();
    const waiting = other.enter({ ...run, signal: controller.signal });
    const { promise: asked, resolve } = Promise.withResolvers<void>();
    setImmediate(resolve);
    await asked;
    controller.abort(gaveUp);
    await expect(waiting).rejects.toBe(gaveUp);
    expect(other.state().caps.requests.waiting.send).toBe(0);
  });
});

type Clock = ReturnType<ReturnType<typeof createParties>["newAccount"]>["clock"];
type One = Parameters<typeof enter>[1];

async function rested<T>(clock: Clock, note: T): Promise<T> {
  await clock.advance(0);
  return note;
}

/** What a process knows is as of its last step: its first call brings it up to date. */
async function twice(clock: Clock, party: One) {
  const first = await rested(clock, enter(clock, party, ask));
  if (first.got !== null && "permit" in first.got) first.got.permit.settle({ type: "not-sent" });
  await clock.advance(0);
  return enter(clock, party, ask);
}

/** The caps as a process sees them that looks now. */
async function seen(clock: Clock, party: One) {
  await clock.advance(5_000);
  party.limiter.state();
  await clock.advance(0);
  return party.limiter.state().caps;
}
