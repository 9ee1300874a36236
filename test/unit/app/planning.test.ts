import { expect, onTestFinished, test } from "vitest";
import { type PlanningParts, startPlanning } from "../../../src/app/planning.ts";
import { createSupervisor } from "../../../src/app/supervise.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import type { DueDelivery, Planned, PlannedSome } from "../../../src/store/rules.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

/** Planned in one run. */
const most = 3;

/** What waits, as several processes see it: seqs in their order. */
function open() {
  const clock = createManualClock();
  const waiting: number[] = [];
  const announced: DueDelivery[] = [];
  const counted: string[] = [];
  const logged: [object, string][] = [];
  const wakers = new Set<() => void>();
  const runs: string[] = [];
  const odd = new Set<number>();
  const lost: string[] = [];
  /** Null: the next run goes on at once; else it waits for this. */
  let held: PromiseWithResolvers<void> | null = null;
  let fault: Error | null = null;
  let canLook = true;
  let isOvertaken = false;

  const about = { account: "main", source: "main", eventId: null, kind: null, headers: null };
  const plannedOf = (seq: number): Planned =>
    odd.has(seq)
      ? { ...about, seq, disposition: "filtered", fault: "no rule for it", due: [] }
      : { ...about, seq, disposition: "routed", fault: null, due: [{ route: "all", event: seq, at: seq }] };

  /** One process. */
  function start(name: string): () => Promise<void> {
    async function planSome(): Promise<PlannedSome> {
      runs.push(name);
      await held?.promise;
      if (fault !== null) throw fault;
      if (waiting.length === 0) return { planned: [], lost: [], left: "none" };
      if (isOvertaken) return { planned: [], lost: [], left: "others" };
      return { planned: waiting.splice(0, most).map(plannedOf), lost: lost.splice(0), left: "some" };
    }
    const log = { error: (what: object, text: string) => logged.push([what, text]) } as unknown as PlanningParts["log"];
    const end = startPlanning({
      privacy: { text: (text) => text },
      backlog: {
        planSome,
        async next() {
          if (!canLook && fault !== null) throw fault;
          return waiting[0] === undefined ? null : String(waiting[0]);
        },
        onWaiting(wake) {
          wakers.add(wake);
          return () => void wakers.delete(wake);
        },
      },
      announce: (due) => void announced.push(...due),
      metrics: { dispositions: { count: (_source: string, disposition: string) => counted.push(disposition) } } as never,
      clock,
      supervise: createSupervisor({ clock, log }).supervise,
      log,
    });
    onTestFinished(end);
    return end;
  }

  return {
    clock,
    waiting,
    announced,
    counted,
    logged,
    runs,
    odd,
    lost,
    start,
    wake: () => {
      for (const wake of wakers) wake();
    },
    listening: () => wakers.size,
    hold() {
      held = Promise.withResolvers();
    },
    goOn() {
      held?.resolve();
      held = null;
    },
    /** `onlyRuns`: looking at the list goes on. */
    fail(error: Error | null, { onlyRuns = false } = {}) {
      canLook = error === null || onlyRuns;
      fault = error;
    },
    overtake(is: boolean) {
      isOvertaken = is;
    },
  };
}

test("what waits when it starts, and stays, is planned; woken once, all there is, and what is due is announced in its order", async () => {
  const { waiting, start, wake, announced, counted, runs, logged, clock } = open();
  waiting.push(1);
  start("one");
  await settled();
  expect(runs).toEqual([]);
  await clock.advance(50);
  expect(waiting).toEqual([]);
  runs.length = 0;
  for (let seq = 2; seq <= 9; seq++) waiting.push(seq);
  wake();
  await settled();
  expect(waiting).toEqual([]);
  expect(announced.map(({ event }) => event)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9]);
  expect(counted).toEqual(Array(9).fill("routed"));
  expect(runs.length).toBe(4);
  expect(logged).toEqual([]);
});

test("what waits when it starts is left to another that is at it", async () => {
  const { waiting, start, runs, clock } = open();
  waiting.push(1, 2, 3);
  start("one");
  await settled();
  for (let n = 0; n < 3; n++) {
    waiting.shift();
    await clock.advance(500);
  }
  expect(runs).toEqual([]);
});

test("told of more while it plans, it looks once more and not once for each; never two runs at a time", async () => {
  const { start, wake, runs, hold, goOn } = open();
  start("one");
  await settled();
  runs.length = 0;
  hold();
  wake();
  for (let n = 0; n < 5; n++) wake();
  await settled();
  expect(runs).toEqual(["one"]);
  goOn();
  await settled();
  // It found nothing, and what came meanwhile was perhaps not seen.
  expect(runs).toEqual(["one", "one"]);
});

test("told in the very moment in which it ends, it does not miss that", async () => {
  const { waiting, start, wake, hold, goOn, announced } = open();
  start("one");
  await settled();
  for (let moment = 0; moment < 20; moment++) {
    hold();
    wake();
    goOn();
    for (let turn = 0; turn < moment; turn++) await Promise.resolve();
    waiting.push(moment);
    wake();
    await settled();
    expect(announced.at(-1)?.event).toBe(moment);
  }
});

test("where another is faster it leaves the list to that one, and is there when it is told of more", async () => {
  const { waiting, start, wake, runs, overtake, announced, clock } = open();
  waiting.push(1, 2, 3, 4);
  overtake(true);
  start("slower");
  wake();
  await settled();
  expect(runs).toEqual(["slower"]);
  wake();
  await settled();
  expect(runs).toEqual(["slower", "slower"]);
  // The other goes on: the list moves, and nobody else is needed.
  for (let n = 0; n < 3; n++) {
    waiting.shift();
    await clock.advance(500);
  }
  expect(runs).toEqual(["slower", "slower"]);
  overtake(false);
  wake();
  await settled();
  expect(announced.map(({ event }) => event)).toEqual([4]);
});

test("what nobody plans is taken over when it has not moved between two looks", async () => {
  const { waiting, start, clock, announced, runs } = open();
  start("one");
  await settled();
  runs.length = 0;
  waiting.push(5, 6);
  await clock.advance(500);
  expect(runs).toEqual([]);
  // The one at its head was planned meanwhile, by some other.
  waiting.shift();
  await clock.advance(500);
  expect(runs).toEqual([]);
  await clock.advance(500);
  expect(announced.map(({ event }) => event)).toEqual([6]);
  runs.length = 0;
  await clock.advance(10_000);
  expect(runs).toEqual([]);
});

test("the store is away: nothing is said here, and it goes on by itself when it is back", async () => {
  const { waiting, start, wake, clock, announced, logged, fail } = open();
  waiting.push(1, 2);
  fail(new StoreUnavailable("away"));
  start("one");
  wake();
  await clock.advance(60_000);
  expect(waiting).toEqual([1, 2]);
  fail(null);
  await clock.advance(10_000);
  expect(announced.map(({ event }) => event)).toEqual([1, 2]);
  expect(logged).toEqual([]);
});

test("any other failure is logged once however long it lasts, and it is tried again", async () => {
  const { waiting, start, wake, clock, announced, logged, fail, runs } = open();
  const error = new TypeError("of nobody's thinking");
  waiting.push(1);
  fail(error);
  start("one");
  wake();
  await settled();
  expect(logged).toEqual([[{ err: error }, "planning failed; it will be tried again"]]);
  const before = runs.length;
  fail(error, { onlyRuns: true });
  await clock.advance(60_000);
  expect(runs.length).toBeGreaterThan(before + 5);
  expect(logged).toHaveLength(1);
  fail(null);
  await clock.advance(10_000);
  expect(announced.map(({ event }) => event)).toEqual([1]);
});

test("an event that could not be judged is counted and logged with its reason; those around it are announced", async () => {
  const { waiting, start, wake, odd, announced, counted, logged } = open();
  waiting.push(1, 2, 3);
  odd.add(2);
  start("one");
  wake();
  await settled();
  expect(announced.map(({ event }) => event)).toEqual([1, 3]);
  expect(counted).toEqual(["routed", "filtered", "routed"]);
  expect(logged).toEqual([
    [{ seq: 2, source: "main", fault: "no rule for it" }, "an event could not be planned; replay it once the cause is gone"],
  ]);
});

test("what was lost is logged", async () => {
  const { waiting, start, wake, lost, logged } = open();
  waiting.push(1);
  lost.push("7");
  start("one");
  wake();
  await settled();
  expect(logged).toEqual([[{ seq: "7" }, "an accepted event is not there any more, or cannot be read: it is never planned"]]);
});

test("ended while it plans, it ends with that run, announces what it planned, and leaves the rest", async () => {
  const { waiting, start, wake, hold, goOn, announced, clock, listening, runs } = open();
  waiting.push(1, 2, 3, 4, 5);
  hold();
  const end = start("one");
  wake();
  await settled();
  let isEnded = false;
  const ending = end().then(() => {
    isEnded = true;
  });
  await settled();
  expect(isEnded).toBe(false);
  expect(listening()).toBe(0);
  wake();
  goOn();
  await ending;
  expect(announced.map(({ event }) => event)).toEqual([1, 2, 3]);
  expect(waiting).toEqual([4, 5]);
  await clock.advance(60_000);
  expect(runs).toEqual(["one"]);
  expect(clock.pending()).toBe(0);
  // Another goes on with it.
  start("other");
  wake();
  await settled();
  expect(announced.map(({ event }) => event)).toEqual([1, 2, 3, 4, 5]);
});

test("ended while the store is away, it ends", async () => {
  const { start, fail, clock } = open();
  fail(new StoreUnavailable("away"));
  const end = start("one");
  await clock.advance(700);
  await end();
  await settled();
  expect(clock.pending()).toBe(0);
});
