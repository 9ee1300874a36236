import { afterEach, beforeEach, expect, test } from "vitest";
import type { QueuedDelivery } from "../../src/model/delivery.ts";
import type { EventId } from "../../src/model/ids.ts";
import { backlog } from "../../src/store/read/stats.ts";
import { state } from "../../src/store/schema/tables.ts";
import { noteCall, notesOf, recentCalls, stopReason } from "../../src/store/work/state-rows.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";
import { storeOn } from "./store-on-database.ts";

const rules = rulesFor([{ name: "all" }, { name: "other" }], { unknown: "forward" });

export function oneStoreNotesContract(open: OpenStore): void {
  let store: OneStore;
  beforeEach(async () => {
    store = await open(rules);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  const nameAll = (request: string, ids: readonly string[], now: number) =>
    store.send(
      ({ nameRequest }) => nameRequest,
      ids.map((id) => ({ request, id: id as EventId, now, forMs: 600_000 })),
    );
  const endPause = async (now: number) =>
    (await store.send((commands) => commands.endPause, [{ route: "all", now }]))[0];

  test("the same request has one id, until its time is over", async () => {
    expect(await nameAll("digest", ["one", "two", "three"], start)).toEqual(["one", "one", "one"]);
    expect(await nameAll("digest", ["four"], start + 599_999)).toEqual(["one"]);
    expect(await nameAll("another", ["four"], start + 1)).toEqual(["four"]);
    expect(await nameAll("digest", ["five", "six"], start + 600_000)).toEqual(["five", "five"]);
    expect(await store.rows(state)).toMatchObject([
      { key: "request/another" },
      { key: "request/digest", until: start + 1_200_000 },
    ]);
  });

  test("a name from a clock that was ahead is not used", async () => {
    await nameAll("digest", ["ahead"], start + 10_000_000);
    expect(await nameAll("digest", ["now"], start)).toEqual(["now"]);
  });

  test("keeps the calls to the service of the last minutes of each account", async () => {
    const note = (ago: number, account = "main") =>
      store.run(() => noteCall(account, { at: start - ago, operation: "runs" }));
    for (const ago of [200_000, 10_000, 60_000, 10_000]) await note(ago);
    await note(5_000, "other");
    const recent = (await store.read(recentCalls("main"))).map(({ at }) => start - at);
    expect(recent).toEqual([200_000, 60_000, 10_000, 10_000]);
    const kept = (await store.rows(state)).map(({ until }) => Number(until) - start);
    expect(kept.toSorted((a, b) => a - b)).toEqual([-20_000, 120_000, 170_000, 170_000, 175_000]);
  });

  test("an open breaker is stored until it closes or an operator ends it", async () => {
    await store.accept([anEvent({ wamid: "w" }), anEvent({ wamid: "v" })]);
    const [one, two] = (await store.due("all", start)) as [QueuedDelivery, QueuedDelivery];
    const opened = { breaker: "all:1", until: start + 5_000, pause: 5_000 };
    const notes = async () => (await storeOn(store, rules).notesOf(["other", "all"]))[1];
    await store.settle([settlementOf(one, "waiting", start, { opened })]);
    expect(await notes()).toEqual({ stop: null, pause: null, opened, failing: null });
    await store.settle([settlementOf(two, "delivered", start, { opened: null })]);
    expect((await notes())?.opened).toBeNull();
    await store.settle([settlementOf({ ...one, attempts: 1 }, "waiting", start, { opened })]);
    expect(await endPause(start + 4_999)).toBe(true);
    expect(await endPause(start)).toBe(false);
    expect((await notes())?.opened).toBeNull();
  });

  test("a cursor never moves back, and of too many the one that has not moved for longest goes", async () => {
    const port = storeOn(store, rules);
    expect(await port.findCursor("crm")).toBeNull();
    expect(await port.moveCursor("crm", 5, start)).toBe(5);
    expect(await port.moveCursor("crm", 3, start + 1)).toBe(5);
    // On PostgreSQL a command waits five seconds at most for its turn.
    for (let n = 0; n < 999; n += 27)
      await Promise.all(
        Array.from({ length: 27 }, (_, more) =>
          port.moveCursor(`c${n + more}`, n + more, start + 2 + n + more),
        ),
      );
    await port.moveCursor("crm", 6, start + 9_999);
    expect(await port.moveCursor("one more", 1, start + 5_000)).toBe(1);
    const cursors = await port.listCursors();
    expect(cursors).toHaveLength(1_000);
    expect(cursors.slice(0, 2)).toEqual([
      { name: "crm", seq: 6, movedAt: start + 9_999 },
      { name: "one more", seq: 1, movedAt: start + 5_000 },
    ]);
    expect([await port.findCursor("c0"), await port.findCursor("c1")]).toEqual([null, 1]);
  });

  test("keeps the last change of each alarm until its end is reported", async () => {
    const port = storeOn(store, rules);
    const alarm = {
      alarm: "key",
      account: "main",
      route: null,
      since: start,
      text: "x".repeat(4_000),
      causes: ["a cause"],
    } as const;
    const other = { ...alarm, account: "shop" };
    const began = { state: "began", alarm, isReported: false } as const;
    await port.keepAlarm(alarm, began);
    await port.keepAlarm(other, { ...began, alarm: other });
    expect(await port.alarms()).toEqual([began, { ...began, alarm: other }]);
    const ended = { ...began, state: "ended" } as const;
    await port.keepAlarm(alarm, ended);
    await port.keepAlarm(other, null);
    expect(await port.alarms()).toEqual([ended]);
    await port.keepAlarm(alarm, null);
    expect(await store.rows(state)).toEqual([]);
  });

  test("reads the stop, the pause and the failures of a route", async () => {
    await store.accept([anEvent({ wamid: "w" })]);
    const [due] = await store.due("all", start);
    const failing = { since: start, attempts: 2, cause: "429" };
    const pause = { breaker: "one", until: start + 5 };
    await store.settle([
      settlementOf(due as QueuedDelivery, "dead", start, { stop: "gone", pause, failing }),
    ]);
    expect(await store.read(notesOf(["all"]))).toEqual([
      { stop: { at: start, reason: "gone" }, pause, opened: null, failing },
    ]);
    expect(await store.read(stopReason("other"))).toBeNull();
    expect(
      (await store.read(backlog())).toSorted((a, b) => a.route.localeCompare(b.route)),
    ).toEqual([
      { route: "all", waiting: 0, held: 0, dead: 1, oldestDueAt: null, deadSince: start },
      { route: "other", waiting: 1, held: 0, dead: 0, oldestDueAt: start, deadSince: null },
    ]);
  });

  test("the longest pause counts, unless the settings of the breaker changed", async () => {
    await store.accept(Array.from({ length: 3 }, () => anEvent()));
    const pauseFor = async (breaker: string, ms: number) => {
      const [due] = await store.due("all", start);
      await store.settle([
        settlementOf(due as QueuedDelivery, "waiting", start, {
          pause: { breaker, until: start + ms },
        }),
      ]);
      return (await store.rows(state)).map(({ value, until }) => [JSON.parse(value), until]);
    };
    expect(await pauseFor("one", 60_000)).toEqual([
      [{ breaker: "one", until: start + 60_000 }, start + 60_000],
    ]);
    expect(await pauseFor("one", 5_000)).toEqual([
      [{ breaker: "one", until: start + 60_000 }, start + 60_000],
    ]);
    expect(await pauseFor("two", 5_000)).toEqual([
      [{ breaker: "two", until: start + 5_000 }, start + 5_000],
    ]);
    expect(await endPause(start)).toBe(true);
    expect(await endPause(start)).toBe(false);
    await store.accept([anEvent()]);
    await pauseFor("two", 5_000);
    expect(await endPause(start + 5_000)).toBe(false);
  });
}
