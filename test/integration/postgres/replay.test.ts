// Two transactions at once: what the locks of replay, release, backfill and names of requests are for.
import { afterEach, beforeEach, expect, test } from "vitest";
import type { EventId } from "../../../src/model/ids.ts";
import type { Batches } from "../../../src/store/create-store.ts";
import { createCommands } from "../../../src/store/create-store.ts";
import type { Sessions } from "../../../src/store/postgres/sessions.ts";
import { codeOf } from "../../../src/store/schema/codes.ts";
import { deliveries, events, queue, queueState, state } from "../../../src/store/schema/tables.ts";
import { ask, find, look, type Work } from "../../../src/store/sql/ops.ts";
import { openInLane } from "../../../src/store/work/plans.ts";
import { type Commands, createShared, type OneStore, type SharedDatabase, settlementOf } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { anotherWaits, closeGate, passGate } from "../../harness/postgres-gate.ts";
import { openSession, type Session } from "../../harness/postgres-session.ts";

let rules = rulesFor([{ name: "all" }], { unknown: "forward" });
const one = (writer: string): Commands => createCommands({ rules, writer, held: () => null });

let shared: SharedDatabase;
let store: OneStore;
let sessions: Sessions;
let observer: Session;
beforeEach(async () => {
  rules = rulesFor([{ name: "all" }], { unknown: "forward" });
  shared = await createShared(18);
  store = await shared.open(rules);
  sessions = shared.sessions();
  observer = await openSession(shared.url);
});
afterEach(async () => {
  await observer[Symbol.asyncDispose]();
  await shared[Symbol.asyncDispose]();
});

function* outcomesOf<In, Out>(kind: Batches<In, Out>, items: readonly In[]): Work<readonly Out[]> {
  return (yield* kind.work(items)).outcomes;
}

/** Runs a command up to before its commit, then `meanwhile`, and both to their ends once that waits or has ended. */
async function during<In, Out, T>(kind: Batches<In, Out>, items: readonly In[], meanwhile: () => Promise<T>, waits = true) {
  const gate = await closeGate(observer);
  const first = sessions.transact(function* () {
    const outcomes = yield* outcomesOf(kind, items);
    yield* passGate();
    return outcomes;
  });
  await gate.reached();
  const second = meanwhile();
  await (waits ? anotherWaits(observer) : second);
  await gate.open();
  return [await first, await second] as const;
}

async function settleOnly(to: "dead" | "delivered"): Promise<void> {
  const due = await store.due("all", start);
  await store.settle(due.map((delivery) => settlementOf(delivery, to, start)));
}
const opened = async () => (await store.rows(queue)).map(({ event, state }) => [event, state]);

test("a retried delivery and an event that is accepted meanwhile do not go out at once", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  await settleOnly("dead");
  const next = { event: anEvent({ wamid: "w" }), proxyRoute: null };
  const retry = () => store.send((commands) => commands.retry, [{ event: 1, route: "all", at: start }]);
  expect((await during(one("a").accept, [next], retry))[1]).toEqual([{ state: "held", due: null }]);
  expect(await opened()).toEqual([
    [1, queueState.held],
    [2, queueState.waiting],
  ]);
});

test("control: without the lock of the subject, the lane looks empty", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  await settleOnly("dead");
  const next = { event: anEvent({ wamid: "w" }), proxyRoute: null };
  const lookOnly = () => sessions.transact(() => ask(find(openInLane, [[1, "all"]])));
  expect((await during(one("a").accept, [next], lookOnly, false))[1]).toEqual([undefined]);
});

test("a retry of a delivery that settles meanwhile makes it wait again", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  const settlements = (await store.due("all", start)).map((delivery) => settlementOf(delivery, "dead", start));
  const retry = () => store.send((commands) => commands.retry, [{ event: 1, route: "all", at: start + 1 }]);
  const [, [retried]] = await during(one("a").settle, settlements, retry);
  expect(retried).toMatchObject({ state: "waiting", due: { at: start + 1 } });
  expect(await store.rows(queue)).toMatchObject([{ event: 1, attempts: 1, replays: 1 }]);
  expect(await store.rows(deliveries)).toEqual([]);
});

test("a delivery that is changed while it settles is settled", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  const [first] = (await store.due("all", start)).map((delivery) => settlementOf(delivery, "waiting", start));
  if (first === undefined) throw new Error("no delivery is due");
  await store.settle([first]);
  const settlements = (await store.due("all", start + 60_000)).map((delivery) => settlementOf(delivery, "delivered", start + 60_000));
  const retrying = { event: 1, route: "all", at: start };
  const [[retried], outcomes] = await during(one("a").retry, [retrying], () => store.settle(settlements));
  expect(retried).toMatchObject({ state: "waiting", due: { at: start } });
  expect(outcomes).toEqual([{ result: "settled", released: null }]);
  expect(await store.rows(queue)).toEqual([]);
});

test("control: a look at settled deliveries before the queue finds neither", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  const settlements = (await store.due("all", start)).map((delivery) => settlementOf(delivery, "dead", start));
  const settled = look(deliveries, ["event", "route"], ["state"]);
  const open = look(queue, ["lane", "route", "event"], ["state"], { lock: "update" });
  const wrongOrder = () =>
    sessions.transact(function* () {
      return [...(yield* ask(find(settled, [[1, "all"]]))), ...(yield* ask(find(open, [[1, "all", 1]])))];
    });
  expect((await during(one("a").settle, settlements, wrongOrder))[1]).toEqual([undefined, undefined]);
});

test("of two replays of a settled delivery, one takes it", async () => {
  await store.accept([anEvent()]);
  await settleOnly("dead");
  const again = { found: [{ event: 1, route: "all" }], states: ["dead" as const], at: start };
  const [[first], [second]] = await during(one("a").replay, [again], () => store.send(({ replay }) => replay, [again]));
  expect([first?.replayed, second?.replayed]).toEqual([1, 0]);
  expect(await store.rows(queue)).toMatchObject([{ replays: 1 }]);
});

const quarantined = look(events, ["seq"], ["disposition"]);

test("of two releases of a body, one makes the event", async () => {
  const { envelope: _, subject: __, ...received } = anEvent();
  await store.send(({ quarantine }) => quarantine, [{ ...received, error: "not understood" }]);
  const released = { ...anEvent({ wamid: "w" }), secret: null, releaseOf: 1 };
  const outcomes = await during(one("a").release, [released], () => store.send(({ release }) => release, [released]));
  expect(outcomes).toMatchObject([[{ result: "accepted" }], [null]]);
  expect(await store.rows(events)).toMatchObject([{ disposition: codeOf.disposition.released, release: 2 }, { duplicates: 0 }]);
});

test("control: without its lock, the body is still in quarantine", async () => {
  const { envelope: _, subject: __, ...received } = anEvent();
  await store.send(({ quarantine }) => quarantine, [{ ...received, error: "not understood" }]);
  const released = { ...anEvent({ wamid: "w" }), secret: null, releaseOf: 1 };
  const lookOnly = () => sessions.transact(() => ask(find(quarantined, [[1]])));
  const [, [seen]] = await during(one("a").release, [released], lookOnly, false);
  expect(seen?.disposition).toBe(codeOf.disposition.quarantined);
});

test("of two backfills of an event, one sends it", async () => {
  rules = rulesFor([{ name: "all", match: { statuses: ["read"] } }]);
  const former = await shared.open(rules);
  await former.accept([anEvent()]);
  rules = rulesFor([{ name: "all" }]);
  const some = { events: [1], filter: { disposition: "filtered" as const }, at: start };
  const [[first], [second]] = await during(one("a").backfill, [some], () => store.send(({ backfill }) => backfill, [some]));
  expect([first?.replayed, second?.replayed]).toEqual([1, 0]);
  expect(await store.rows(queue)).toHaveLength(1);
});

test("a request that two processes name at once has one id", async () => {
  const named = (id: string) => ({ request: "digest", id: id as EventId, now: start, forMs: 60_000 });
  const outcomes = await during(one("a").nameRequest, [named("first")], () =>
    store.send(({ nameRequest }) => nameRequest, [named("second")]),
  );
  expect(outcomes).toEqual([["first"], ["first"]]);
  expect(await store.rows(state)).toMatchObject([{ version: 1 }]);
});
