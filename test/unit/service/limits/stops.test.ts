import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CallOutcome } from "../../../../src/service/endpoints.ts";
import { planCaps, quotaMonth } from "../../../../src/service/limits/caps.ts";
import { answered, permitOf, poll, refusalOf, run, send, setUp } from "./set-up.ts";

const minute = 60_000;
const hour = 60 * minute;
const free = {
  quota: null,
  "quota-messages": null,
  "quota-runs": null,
  "quota-reads": null,
  unauthenticated: null,
  blocked: null,
};
/** What the service calls its quota of calls. */
const usedUp = (resource: string | null = "apiCalls"): CallOutcome => ({
  type: "quota-used-up",
  resource,
});

describe("a used-up quota", () => {
  test("refuses all calls, waiting ones included, without a timer, and lets one go each hour", async () => {
    const { clock, limiter, enter } = await setUp();
    const [first, ...others] = Array.from({ length: 15 }, () => enter(send));
    await clock.advance(0);
    if (first === undefined) throw new Error("no call");
    permitOf(first).settle(usedUp());
    await clock.advance(0);
    expect(others.slice(9).map(refusalOf)).toEqual(Array.from({ length: 5 }, () => "quota"));
    for (const note of others.slice(0, 9)) permitOf(note).settle(answered);
    const until = quotaMonth(clock.now()).until;
    expect(limiter.state()).toMatchObject({
      stops: { ...free, quota: until },
      resources: { quota: "apiCalls" },
    });
    const late = enter(poll);
    await clock.advance(0);
    expect(refusalOf(late)).toBe("quota");
    expect((late.got as { error: { failure: unknown } }).error.failure).toEqual({
      kind: "quota",
      cause: null,
      until,
    });
    expect(clock.pending()).toBe(0);
    for (const outcome of [usedUp(), answered]) {
      await clock.advance(hour - 1);
      expect(refusalOf(await settled(enter(poll), clock))).toBe("quota");
      await clock.advance(1);
      const probe = await settled(enter(poll), clock);
      expect(refusalOf(await settled(enter(send), clock))).toBe("quota");
      permitOf(probe).settle(outcome);
    }
    expect(limiter.state()).toMatchObject({ stops: free, resources: {} });
    permitOf(await settled(enter(send), clock)).settle(answered);
  });

  test.each([
    // A minute more than the turn, because the service's counter may be late.
    ["half an hour before", -hour / 2, hour / 2 + minute],
    ["a late renewal, or a fast clock", 1_000, minute - 1_000],
    ["two hours after", 2 * hour, hour],
  ])(
    "near a month's turn is probed after it, and within an hour: %s",
    async (_case, afterTurn, waitMs) => {
      const { clock, limiter, enter, settleOne } = await setUp();
      await clock.advance(quotaMonth(clock.now()).until + afterTurn - clock.now());
      await settleOne(poll, usedUp());
      await clock.advance(waitMs - 1);
      expect(refusalOf(await settled(enter(poll), clock))).toBe("quota");
      await clock.advance(1);
      permitOf(await settled(enter(poll), clock)).settle(answered);
      expect(limiter.state().stops).toEqual(free);
    },
  );

  test("is probed again by the next call after a probe without a verdict", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(run, usedUp());
    await clock.advance(hour);
    const verdicts: CallOutcome[] = [
      { type: "unknown" },
      { type: "not-sent" },
      { type: "rate-limited", cap: "messages", retryAfterMs: 1_000, limit: null },
    ];
    for (const outcome of verdicts) {
      const probe = await settled(enter(run), clock);
      expect(refusalOf(await settled(enter(run), clock))).toBe("quota");
      permitOf(probe).settle(outcome);
    }
    permitOf(await settled(enter(run), clock)).settle(answered);
    expect(limiter.state().stops).toEqual(free);
  });

  test("passes the probe to the next call when one gives up or is never answered", async () => {
    const { clock, limiter, enter, settleOne } = await setUp({
      caps: { requests: 1, messages: 1 },
      share: 1,
    });
    await settleOne(poll, usedUp());
    await clock.advance(hour);
    const hanging = await settled(enter(poll), clock);
    await clock.advance(2 * minute - 1);
    expect(refusalOf(await settled(enter(poll), clock))).toBe("quota");
    await clock.advance(1);
    permitOf(hanging).settle(usedUp());
    // The slot of the first is still held, so this one waits.
    const controller = new AbortController();
    const waiting = enter({ ...poll, signal: controller.signal });
    expect(refusalOf(await settled(enter(poll), clock))).toBe("quota");
    controller.abort(new Error("enough"));
    await settled(waiting, clock);
    const next = enter(poll);
    await clock.advance(minute);
    permitOf(next).settle(answered);
    expect(limiter.state().stops).toEqual(free);
  });

  test("ends with resume; answers to earlier calls do not restart it, a new answer does", async () => {
    const { clock, limiter, enter } = await setUp();
    const [one, two] = [enter(poll), enter(poll)];
    await clock.advance(0);
    permitOf(one).settle(usedUp());
    expect(await limiter.resumeByOrder()).toEqual(["quota"]);
    permitOf(two).settle(usedUp());
    const three = await settled(enter(poll), clock);
    permitOf(three).settle(usedUp());
    expect(refusalOf(await settled(enter(poll), clock))).toBe("quota");
    limiter.retune({ caps: planCaps.escala, share: 1 });
    permitOf(await settled(enter(poll), clock)).settle(answered);
    expect(await limiter.resumeByOrder()).toEqual([]);
  });

  test.each([
    ["apiCalls", run, "quota", [send, run, poll]],
    ["APICALLS", poll, "quota", [send, run, poll]],
    ["automationSteps", run, "quota-runs", [run]],
    ["automationRequests", send, "quota-runs", [run]],
    ["somethingNew", send, "quota-messages", [send]],
    ["somethingNew", poll, "quota-reads", [poll]],
    [null, run, "quota-runs", [run]],
  ] as const)("of %s stops only what it covers", async (resource, refused, reason, covered) => {
    const { clock, limiter, enter, settleOne } = await setUp();
    const all = [send, run, poll];
    await settleOne(refused, usedUp(resource));
    expect(
      Object.entries(limiter.state().stops).flatMap(([name, until]) =>
        until === null ? [] : [name],
      ),
    ).toEqual([reason]);
    for (const call of all) {
      const note = await settled(enter(call), clock);
      const isCovered = covered.some(({ operation }) => operation === call.operation);
      if (isCovered) expect(refusalOf(note)).toBe("quota");
      else permitOf(note).settle(answered);
    }
    // Other calls do not end it; a covered one does, an hour later. Only of API calls is the
    // renewal known.
    const until = limiter.state().stops[reason] ?? Number.NaN;
    expect(until - clock.now() > hour).toBe(reason === "quota");
    await clock.advance(hour);
    permitOf(await settled(enter(covered[0]), clock)).settle(answered);
    expect(limiter.state().stops).toEqual(free);
  });

  test("of one operation refuses only waiting calls of that operation", async () => {
    const { clock, enter } = await setUp({ atOnce: 4 });
    const first = enter(run);
    const behind = [enter(run), enter(run), enter(run), enter(run), enter(send)];
    await clock.advance(0);
    permitOf(first).settle(usedUp("automationSteps"));
    await clock.advance(0);
    expect(
      behind.map(({ got }) =>
        got !== null && "error" in got ? "refused" : got === null ? "waits" : "went",
      ),
    ).toEqual(["went", "went", "went", "refused", "went"]);
  });

  test("ends when another quota refuses its probe, and that quota's stop begins", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(run, usedUp());
    await clock.advance(hour);
    permitOf(await settled(enter(run), clock)).settle(usedUp("automationSteps"));
    expect(limiter.state().stops).toEqual({ ...free, "quota-runs": clock.now() + hour });
  });
});

test("after a renewal each operation is called again within an hour, and refused ones are probed hourly", async () => {
  const stepMs = 5 * minute;
  const kinds = [send, run, poll];
  const quota = fc.record({
    /** Calls that the service refuses by it. */
    refuses: fc.subarray(kinds, { minLength: 1 }),
    resource: fc.constantFrom("apiCalls", "automationSteps", "somethingNew", null),
    fromStep: fc.nat(40),
    steps: fc.nat(60),
  });
  await fc.assert(
    fc.asyncProperty(
      fc.array(quota, { minLength: 1, maxLength: 3 }),
      fc.infiniteStream(fc.nat(9)),
      async (quotas, lots) => {
        const { clock, limiter, enter } = await setUp();
        const refusedAt = new Map<string, number[]>();
        const answeredAt = new Map<string, number>();
        const last = Math.max(...quotas.map(({ fromStep, steps }) => fromStep + steps));
        for (let step = 0; step <= last + 13; step += 1) {
          for (const call of kinds) {
            const note = await settled(enter(call), clock);
            if (note.got === null || "error" in note.got) continue;
            const used = quotas.find(
              ({ refuses, fromStep, steps }) =>
                refuses.includes(call) && step >= fromStep && step < fromStep + steps,
            );
            // Now and then a probe's answer does not come.
            const isLost = step < last && (lots.next().value ?? 0) === 0;
            if (isLost) note.got.permit.settle({ type: "unknown" });
            else if (used === undefined) {
              answeredAt.set(call.operation, step);
              note.got.permit.settle(answered);
            } else {
              const key = `${call.operation} ${used.resource}`;
              refusedAt.set(key, [...(refusedAt.get(key) ?? []), step]);
              note.got.permit.settle(usedUp(used.resource));
            }
          }
          await clock.advance(stepMs);
        }
        for (const { operation } of kinds) expect(answeredAt.get(operation)).toBe(last + 13);
        expect(limiter.state().stops).toEqual(free);
        // A kind that its own resource stops is refused once an hour, unless something else ended
        // the stop.
        if (quotas.length === 1 && quotas[0]?.resource === null) {
          for (const steps of refusedAt.values()) {
            for (const [n, step] of steps.slice(1).entries())
              expect(step - (steps[n] ?? 0)).toBeGreaterThanOrEqual(12);
          }
        }
      },
    ),
    { numRuns: 60 },
  );
});

describe("a key that is refused", () => {
  test("is probed after 30 s, 1, 2, 4, 8, 15 and 15 min; all other calls are refused until a valid answer", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(poll, { type: "unauthenticated" });
    const waits: number[] = [];
    for (let round = 0; round < 7; round += 1) {
      const until = limiter.state().stops.unauthenticated ?? Number.NaN;
      waits.push((until - clock.now()) / 1000);
      await clock.advance(until - clock.now() - 1);
      expect(refusalOf(await settled(enter(poll), clock))).toBe("unauthenticated");
      await clock.advance(1);
      const probe = await settled(enter(poll), clock);
      expect(refusalOf(await settled(enter(send), clock))).toBe("unauthenticated");
      permitOf(probe).settle({ type: "unauthenticated" });
    }
    expect(waits).toEqual([30, 60, 120, 240, 480, 900, 900]);
    await clock.advance(900_000);
    permitOf(await settled(enter(poll), clock)).settle(answered);
    expect(limiter.state().stops.unauthenticated).toBeNull();
    await settleOne(poll, { type: "unauthenticated" });
    expect(limiter.state().stops.unauthenticated).toBe(clock.now() + 30_000);
    expect(clock.pending()).toBe(0);
  });

  test("counts as valid after a per-minute 429, and stays doubted without an answer", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(poll, { type: "unauthenticated" });
    await clock.advance(30_000);
    for (const type of ["unknown", "not-sent"] as const) {
      const probe = await settled(enter(poll), clock);
      expect(refusalOf(await settled(enter(poll), clock))).toBe("unauthenticated");
      permitOf(probe).settle({ type });
      expect(limiter.state().stops.unauthenticated).not.toBeNull();
    }
    permitOf(await settled(enter(poll), clock)).settle({ type: "blocked" });
    expect(limiter.state().stops).toMatchObject({
      unauthenticated: expect.any(Number),
      blocked: clock.now() + 60_000,
    });
    await clock.advance(30_000);
    expect(refusalOf(await settled(enter(poll), clock))).toBe("blocked");
    await clock.advance(30_000);
    permitOf(await settled(enter(poll), clock)).settle({
      type: "rate-limited",
      cap: "messages",
      retryAfterMs: null,
      limit: null,
    });
    expect(limiter.state().stops).toEqual(free);
  });

  test("ignores answers to calls that were in flight when the doubt began or ended", async () => {
    const { clock, limiter, enter } = await setUp();
    const [one, two, three, four] = [enter(poll), enter(poll), enter(poll), enter(poll)];
    await clock.advance(0);
    permitOf(one).settle({ type: "unauthenticated" });
    permitOf(two).settle({ type: "unauthenticated" });
    permitOf(three).settle(answered);
    expect(limiter.state().stops.unauthenticated).toBe(clock.now() + 30_000);
    await clock.advance(30_000);
    permitOf(await settled(enter(poll), clock)).settle(answered);
    permitOf(four).settle({ type: "unauthenticated" });
    expect(limiter.state().stops.unauthenticated).toBeNull();
  });

  test("is forgotten when the settings have another key", async () => {
    const { clock, limiter, enter, settleOne } = await setUp();
    await settleOne(poll, { type: "unauthenticated" });
    limiter.retune({ caps: planCaps.escala, share: 1 });
    expect(limiter.state().stops.unauthenticated).not.toBeNull();
    limiter.retune({ caps: planCaps.escala, share: 1, keyId: "another" });
    expect(limiter.state().stops.unauthenticated).toBeNull();
    permitOf(await settled(enter(poll), clock)).settle(answered);
  });

  test("costs 5 calls when it is wrong from the start, because 20 a minute block the address", async () => {
    const { clock, enter } = await setUp({}, false);
    const notes = Array.from({ length: 100 }, () => enter(poll));
    await clock.advance(0);
    const went = notes.filter(({ got }) => got !== null);
    expect(went).toHaveLength(5);
    for (const note of went) permitOf(note).settle({ type: "unauthenticated" });
    await clock.advance(0);
    expect(notes.filter(({ got }) => got !== null && "error" in got)).toHaveLength(95);
  });

  test("lets all calls go with the first answer when it is valid", async () => {
    const { clock, enter } = await setUp({}, false);
    const notes = Array.from({ length: 100 }, () => enter(run));
    await clock.advance(0);
    permitOf(notes[0] as (typeof notes)[0]).settle(answered);
    await clock.advance(0);
    expect(notes.filter(({ got }) => got !== null)).toHaveLength(100);
  });
});

test("refuses all calls for 60 s while the address is blocked", async () => {
  const { clock, limiter, enter, settleOne } = await setUp({
    caps: { requests: 2, messages: 1 },
    share: 1,
  });
  const [under, waiting] = [enter(run), enter(run), enter(run)].slice(1) as [
    ReturnType<typeof enter>,
    ReturnType<typeof enter>,
  ];
  await clock.advance(0);
  permitOf(under).settle({ type: "blocked" });
  await clock.advance(0);
  expect(refusalOf(waiting)).toBe("blocked");
  expect(limiter.state().stops.blocked).toBe(clock.now() + 60_000);
  await clock.advance(59_999);
  expect(refusalOf(await settled(enter(run), clock))).toBe("blocked");
  await clock.advance(1);
  await settleOne(run, answered);
  expect(limiter.state().stops).toEqual(free);
});

test("calls the hooks for every end, every refusal, and each stop once", async () => {
  const heard: string[] = [];
  const { clock, enter } = await setUp({
    hooks: {
      settled: ({ operation }, { type }) => heard.push(`settled ${operation} ${type}`),
      refused: (reason) => heard.push(`refused ${reason}`),
      stopped: (reason, until) => heard.push(`stopped ${reason} ${until - clock.now()}`),
    },
  });
  heard.length = 0;
  const [one, two] = [enter(run), enter(poll)];
  await clock.advance(0);
  permitOf(one).settle({ type: "blocked" });
  permitOf(two).settle({ type: "blocked" });
  await settled(enter(send), clock);
  expect(heard).toEqual([
    "settled runs blocked",
    "stopped blocked 60000",
    "settled reads blocked",
    "refused blocked",
  ]);
});

async function settled<T>(note: T, clock: { advance(ms: number): Promise<void> }): Promise<T> {
  await clock.advance(0);
  return note;
}
