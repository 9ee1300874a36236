// Two transactions at once: what the locks of accept, settle, replay, release, backfill and names
// of requests are for.
import { afterEach, beforeEach, expect, test } from "vitest";
import type { EventId } from "../../../src/model/ids.ts";
import type { Batches } from "../../../src/store/create-store.ts";
import { createCommands } from "../../../src/store/create-store.ts";
import { codeOf } from "../../../src/store/schema/codes.ts";
import { deliveries, events, queue, queueState, state } from "../../../src/store/schema/tables.ts";
import type { Work } from "../../../src/store/sql/ops.ts";
import {
  type Commands,
  emptyShared,
  type OneStore,
  type SharedDatabase,
  settlementOf,
} from "../../contract/one-store.ts";
import { anEvent, rulesFor, start, unreadable } from "../../contract/store-events.ts";
import { during } from "../../harness/postgres-gate.ts";

let rules = rulesFor([{ name: "all" }], { unknown: "forward" });
const one = (writer: string): Commands => createCommands({ rules, writer, held: () => null });

let shared: SharedDatabase;
let store: OneStore;
beforeEach(async () => {
  rules = rulesFor([{ name: "all" }], { unknown: "forward" });
  shared = await emptyShared();
  store = await shared.open(rules);
});
afterEach(() => shared[Symbol.asyncDispose]());

function* outcomesOf<In, Out>(kind: Batches<In, Out>, items: readonly In[]): Work<readonly Out[]> {
  return (yield* kind.work(items)).outcomes;
}

const duringBatch = <In, Out, T>(
  kind: Batches<In, Out>,
  items: readonly In[],
  meanwhile: () => Promise<T>,
) => during(shared, () => outcomesOf(kind, items), meanwhile);

const settlements = async (to: "dead" | "delivered") =>
  (await store.due("all", start)).map((delivery) => settlementOf(delivery, to, start));
const settleOnly = async (to: "dead" | "delivered") => store.settle(await settlements(to));
const opened = async () => (await store.rows(queue)).map(({ event, state }) => [event, state]);

test("a delivery that is held while the one before it settles is released", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  const settling = await settlements("delivered");
  const next = { event: anEvent({ wamid: "w" }), proxyRoute: null };
  const [, settled] = await duringBatch(one("a").accept, [next], () => store.settle(settling));
  expect(settled).toMatchObject([{ result: "settled", released: { event: 2 } }]);
  expect(await opened()).toEqual([[2, queueState.waiting]]);
});

test.each([1, 2])(
  "an event that is accepted while the first of %i settles waits behind the others only",
  async (count) => {
    await store.accept(Array.from({ length: count }, () => anEvent({ wamid: "w" })));
    await duringBatch(one("a").settle, await settlements("delivered"), () =>
      store.accept([anEvent({ wamid: "w" })]),
    );
    const behind = [queueState.waiting, queueState.held].slice(0, count);
    expect(await opened()).toEqual(behind.map((each, place) => [place + 2, each]));
  },
);

test("a retried delivery and an event that is accepted meanwhile do not go out at once", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  await settleOnly("dead");
  const next = { event: anEvent({ wamid: "w" }), proxyRoute: null };
  const retry = () =>
    store.send((commands) => commands.retry, [{ event: 1, route: "all", at: start }]);
  expect((await duringBatch(one("a").accept, [next], retry))[1]).toEqual([
    { state: "held", due: null },
  ]);
  expect(await opened()).toEqual([
    [1, queueState.held],
    [2, queueState.waiting],
  ]);
});

test("a retry of a delivery that settles meanwhile makes it wait again", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  const settling = await settlements("dead");
  const retry = () =>
    store.send((commands) => commands.retry, [{ event: 1, route: "all", at: start + 1 }]);
  const [, [retried]] = await duringBatch(one("a").settle, settling, retry);
  expect(retried).toMatchObject({ state: "waiting", due: { at: start + 1 } });
  expect(await store.rows(queue)).toMatchObject([{ event: 1, attempts: 1, replays: 1 }]);
  expect(await store.rows(deliveries)).toEqual([]);
});

test("a delivery that is changed while it settles is settled", async () => {
  await store.accept([anEvent({ wamid: "w" })]);
  const [first] = (await store.due("all", start)).map((delivery) =>
    settlementOf(delivery, "waiting", start),
  );
  if (first === undefined) throw new Error("no delivery is due");
  await store.settle([first]);
  const later = (await store.due("all", start + 60_000)).map((delivery) =>
    settlementOf(delivery, "delivered", start + 60_000),
  );
  const retrying = { event: 1, route: "all", at: start };
  const [[retried], outcomes] = await duringBatch(one("a").retry, [retrying], () =>
    store.settle(later),
  );
  expect(retried).toMatchObject({ state: "waiting", due: { at: start } });
  expect(outcomes).toEqual([{ result: "settled", released: null }]);
  expect(await store.rows(queue)).toEqual([]);
});

test("of two replays of a settled delivery, one takes it", async () => {
  await store.accept([anEvent()]);
  await settleOnly("dead");
  const again = { found: [{ event: 1, route: "all" }], states: ["dead" as const], at: start };
  const [[first], [second]] = await duringBatch(one("a").replay, [again], () =>
    store.send(({ replay }) => replay, [again]),
  );
  expect([first?.replayed, second?.replayed]).toEqual([1, 0]);
  expect(await store.rows(queue)).toMatchObject([{ replays: 1 }]);
});

test("of two releases of a body, one makes the event", async () => {
  await store.send(({ quarantine }) => quarantine, [unreadable(anEvent())]);
  const released = { ...anEvent({ wamid: "w" }), secret: null, releaseOf: 1 };
  const outcomes = await duringBatch(one("a").release, [released], () =>
    store.send(({ release }) => release, [released]),
  );
  expect(outcomes).toMatchObject([[{ result: "accepted" }], [null]]);
  expect(await store.rows(events)).toMatchObject([
    { disposition: codeOf.disposition.released, release: 2 },
    { duplicates: 0 },
  ]);
});

test("of two backfills of an event, one sends it", async () => {
  rules = rulesFor([{ name: "all", match: { statuses: ["read"] } }]);
  const former = await shared.open(rules);
  await former.accept([anEvent()]);
  rules = rulesFor([{ name: "all" }]);
  const some = { events: [1], filter: { disposition: "filtered" as const }, at: start };
  const [[first], [second]] = await duringBatch(one("a").backfill, [some], () =>
    store.send(({ backfill }) => backfill, [some]),
  );
  expect([first?.replayed, second?.replayed]).toEqual([1, 0]);
  expect(await store.rows(queue)).toHaveLength(1);
});

test("a request that two processes name at once has one id", async () => {
  const named = (id: string) => ({
    request: "digest",
    id: id as EventId,
    now: start,
    forMs: 60_000,
  });
  const outcomes = await duringBatch(one("a").nameRequest, [named("first")], () =>
    store.send(({ nameRequest }) => nameRequest, [named("second")]),
  );
  expect(outcomes).toEqual([["first"], ["first"]]);
  expect(await store.rows(state)).toMatchObject([{ version: 1 }]);
});
