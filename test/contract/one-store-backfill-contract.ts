import { afterEach, beforeEach, expect, test } from "vitest";
import type {
  BackfillFilter,
  DueDelivery as Due,
  ReplayCursor,
  ReplayFound,
  Rules,
} from "../../src/store/port.ts";
import { codeOf } from "../../src/store/schema/codes.ts";
import { counters, events, plans, queue, queueState } from "../../src/store/schema/tables.ts";
import { findBackfill } from "../../src/store/work/backfill.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import {
  anEvent,
  type EventParts,
  type RouteParts,
  rulesFor,
  start,
  startOfWalk,
} from "./store-events.ts";

export function oneStoreBackfillContract(open: OpenStore): void {
  /** The routes of the settings, which a reload replaces. */
  let current: Rules;
  let store: OneStore;
  const load = (routes: readonly RouteParts[]): void => {
    current = rulesFor(routes, { unknown: "forward" });
  };
  const rules: Rules = {
    stepMessage: (state, seen) => current.stepMessage(state, seen),
    stepRun: (state, seen) => current.stepRun(state, seen),
    hydration: (event) => current.hydration(event),
    timing: (route) => current.timing(route),
    parkFor: 60_000,
    plan: (event, tracking) => current.plan(event, tracking),
  };
  beforeEach(async () => {
    load([{ name: "read", match: { statuses: ["read"] } }]);
    store = await open(rules);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  const accept = async (parts: EventParts = {}): Promise<number> =>
    (await store.accept([anEvent(parts)]))[0]?.seq ?? 0;
  const eventOf = async (seq: number) => (await store.rows(events)).find((row) => row.seq === seq);
  const verdictsOf = async (seq: number) => {
    const event = await eventOf(seq);
    return JSON.parse(
      (await store.rows(plans)).find(({ id }) => id === event?.plan)?.verdicts ?? "null",
    );
  };
  const counted = async () =>
    Object.fromEntries(
      (await store.rows(counters))
        .filter(({ series }) => series === "events")
        .map(({ label, n }) => [label, n]),
    );

  async function backfill(filter: Partial<BackfillFilter> = {}, at = start) {
    const whole: BackfillFilter = { disposition: "filtered", ...filter };
    const all = { found: 0, replayed: 0, due: [] as Due[] };
    let place: ReplayCursor | null = startOfWalk(at);
    while (place !== null) {
      const step: ReplayFound = await store.read(findBackfill(whole, place, 3, rules));
      const some = step.found.map(({ event }) => event);
      const [done = { replayed: 0, due: [] }] = await store.send(
        ({ backfill }) => backfill,
        [{ events: some, filter: whole, at }],
      );
      all.found += step.found.length;
      all.replayed += done.replayed;
      all.due.push(...done.due);
      place = step.cursor;
    }
    return all;
  }

  test("events that no route took go to a new route, in order per message, and the counts follow", async () => {
    const seqs: number[] = [];
    for (let n = 0; n < 7; n += 1)
      seqs.push(await accept({ wamid: `w${n % 2}`, status: "sent", receivedAt: start + n }));
    expect(await backfill()).toEqual({ found: 0, replayed: 0, due: [] });
    load([
      { name: "read", match: { statuses: ["read"] } },
      { name: "new", firstWait: 500 },
    ]);
    const at = start + 100;
    const done = await backfill({}, at);
    expect([done.found, done.replayed]).toEqual([7, 7]);
    expect(done.due).toEqual(
      [1, 2].map((lane) => ({ route: "new", event: seqs[lane - 1], at: at + 500, lane })),
    );
    expect(
      (await store.rows(queue)).map(({ event, state, replays }) => [event, state, replays]),
    ).toEqual([
      [1, queueState.waiting, 1],
      [3, queueState.held, 1],
      [5, queueState.held, 1],
      [7, queueState.held, 1],
      [2, queueState.waiting, 1],
      [4, queueState.held, 1],
      [6, queueState.held, 1],
    ]);
    expect(await eventOf(1)).toMatchObject({ disposition: codeOf.disposition.routed });
    expect(await verdictsOf(1)).toEqual([
      ["read", "skip", expect.any(String)],
      ["new", "deliver"],
    ]);
    expect(await counted()).toEqual({ filtered: 0, routed: 7 });
    expect(await backfill({}, at)).toEqual({ found: 0, replayed: 0, due: [] });
  });

  test("takes only what the filter names", async () => {
    const codes = ["1", "2", "1", "2"];
    for (const [n, errorCode] of codes.entries())
      await accept({ wamid: `w${n}`, status: "failed", errorCode, receivedAt: start + n });
    load([{ name: "one" }, { name: "two" }]);
    expect(
      await backfill({ errorCode: "1", from: start + 1, route: "two" }, start + 100),
    ).toMatchObject({
      found: 1,
      due: [{ event: 3, route: "two" }],
    });
    expect(
      (await backfill({ to: start + 1 }, start + 100)).due.map(({ event, route }) => [
        event,
        route,
      ]),
    ).toEqual([
      [1, "one"],
      [1, "two"],
    ]);
    // What came after the walk began was planned by the current routes.
    expect((await backfill({}, start + 2)).due.map(({ event }) => event)).toEqual([2, 2]);
    expect((await backfill({ disposition: "ignored" }, start + 100)).replayed).toBe(0);
  });

  test("a delivery that is backfilled is held behind what is open of its message", async () => {
    const early = await accept({ wamid: "w", status: "sent" });
    const later = await accept({ wamid: "w", status: "read" });
    load([{ name: "read" }]);
    expect(await backfill()).toEqual({ found: 1, replayed: 1, due: [] });
    const [due] = await store.due("read", start);
    expect(due?.event).toBe(later);
    expect(await store.settle([settlementOf(due as never, "delivered", start)])).toMatchObject([
      { released: { event: early } },
    ]);
  });

  test("backfills at once send an event once", async () => {
    const seq = await accept({ wamid: "w", status: "sent" });
    load([{ name: "new" }]);
    const one = { events: [seq, seq], filter: { disposition: "filtered" as const }, at: start };
    expect(
      (await store.send(({ backfill }) => backfill, [one, one])).map(({ replayed }) => replayed),
    ).toEqual([1, 0]);
    expect(await store.rows(queue)).toHaveLength(1);
  });

  test("an event whose body is no envelope any more gets nothing", async () => {
    const event = anEvent({ wamid: "w", status: "sent" });
    await store.accept([{ ...event, body: Buffer.from("other") }]);
    load([{ name: "new" }]);
    expect(await backfill()).toEqual({ found: 0, replayed: 0, due: [] });
  });
}
