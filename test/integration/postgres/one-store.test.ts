import { expect, test } from "vitest";
import type { Lease } from "../../../src/model/route-lease.ts";
import { createHorizon } from "../../../src/store/postgres/reader.ts";
import { counters, deliveries, events, queue, subjects } from "../../../src/store/schema/tables.ts";
import { rows } from "../../../src/store/sql/ops.ts";
import { sql } from "../../../src/store/sql/sql.ts";
import {
  beat,
  type Held,
  handBack,
  lostLeases,
  takeLease,
} from "../../../src/store/work/leases.ts";
import { emptyShared, type OneStore, settlementOf } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { closeGate, passGate } from "../../harness/postgres-gate.ts";
import { openSession, waitsForLock } from "../../harness/postgres-session.ts";
import { until } from "../../harness/until.ts";

const rules = rulesFor([{ name: "crm" }], { unknown: "forward" });
const deadAfter = 10_000;

test("a route has one holder, until its heartbeat is old or it hands back", async () => {
  await using shared = await emptyShared();
  await using store = await shared.open(rules);
  const take = (worker: string, now: number) =>
    store.run(() => takeLease("crm", worker, now, deadAfter));
  await store.run(() => beat("one", start));
  const first = await take("one", start);
  expect(first).toEqual({ holder: "one", epoch: 1 });
  expect(await take("one", start)).toEqual(first);
  expect(await take("two", start + deadAfter - 1)).toBeNull();
  expect(await take("two", start + deadAfter)).toEqual({ holder: "two", epoch: 2 });
  // The former holder gives back what is not its own any more.
  await store.run(() => handBack("crm", first as Lease));
  await store.run(() => beat("two", start + deadAfter));
  expect(await take("one", start + deadAfter)).toBeNull();
  await store.run(() => handBack("crm", { holder: "two", epoch: 2 }));
  expect(await take("one", start + deadAfter)).toEqual({ holder: "one", epoch: 3 });
});

test("of two that take a new lease at once, one gets it", async () => {
  await using shared = await emptyShared();
  const stores = await Promise.all(
    ["one", "two", "three"].map((writer) => shared.open(rules, { writer })),
  );
  for (const worker of ["one", "two", "three"]) await stores[0]?.run(() => beat(worker, start));
  const taken = await Promise.all(
    stores.map((store, place) =>
      store.run(() => takeLease("crm", ["one", "two", "three"][place] as string, start, deadAfter)),
    ),
  );
  expect(taken.filter((lease) => lease !== null)).toHaveLength(1);
});

test("nothing is settled once another holder may have read the queue", async () => {
  await using shared = await emptyShared();
  const leases = new Map<string, Lease>([["crm", { holder: "one", epoch: 1 }]]);
  await using store = await shared.open(rules, { held: () => leases as Held });
  await store.run(() => takeLease("crm", "one", start, deadAfter));
  await store.accept([anEvent({ wamid: "wamid.1" }), anEvent({ wamid: "wamid.2" })]);
  const [one, two] = await store.due("crm", start);

  expect(await store.settle([settlementOf(one as never, "delivered", start)])).toMatchObject([
    { result: "settled" },
  ]);
  await store.run(() => takeLease("crm", "two", start + deadAfter, deadAfter));
  expect(await store.settle([settlementOf(two as never, "delivered", start)])).toEqual([
    { result: "lost" },
  ]);
  expect(await store.rows(queue)).toMatchObject([{ event: 2, attempts: 0 }]);
  expect(await store.rows(deliveries)).toHaveLength(1);
});

test("nothing is settled under a lease that its holder lost and took again", async () => {
  await using shared = await emptyShared();
  const leases = new Map<string, Lease>([["crm", { holder: "one", epoch: 1 }]]);
  await using store = await shared.open(rules, { held: () => leases as Held });
  await store.run(() => takeLease("crm", "one", start, deadAfter));
  await store.accept([anEvent({ wamid: "wamid.1" })]);
  const [delivery] = await store.due("crm", start);
  const later = start + deadAfter;
  await store.run(() => takeLease("crm", "two", later, deadAfter));
  expect(await store.run(() => takeLease("crm", "one", later + deadAfter, deadAfter))).toEqual({
    holder: "one",
    epoch: 3,
  });
  expect(await store.settle([settlementOf(delivery as never, "delivered", start)])).toEqual([
    { result: "lost" },
  ]);
});

test("a takeover waits for a running settlement", async () => {
  await using shared = await emptyShared();
  await using store = await shared.open(rules);
  const held = new Map<string, Lease>([["crm", { holder: "one", epoch: 1 }]]);
  await store.run(() => takeLease("crm", "one", start, deadAfter));
  await using observer = await openSession(shared.url);
  await using taking = await openSession(shared.url);

  const sessions = shared.sessions();
  // The settlement has looked at its lease and is not committed yet.
  const gate = await closeGate(observer);
  const settling = sessions.transact(function* () {
    const lost = yield* lostLeases(["crm"], held);
    yield* passGate();
    return lost.size;
  });
  await gate.reached();
  const takeover = taking.rows(
    `UPDATE relay.state SET value = '{"holder":"two","epoch":9}' WHERE key = 'lease/crm'`,
  );
  await waitsForLock(taking, observer);
  await gate.open();
  expect(await settling).toBe(0);
  await takeover;
});

test("two receivers and repeats at once: each event once, each message in order, every count right", async () => {
  await using shared = await emptyShared();
  const receivers = await Promise.all(
    ["one", "two"].map((writer) => shared.open(rules, { writer })),
  );
  const statuses = ["sent", "delivered", "read"];
  const sent = Array.from({ length: 300 }, (_, n) =>
    anEvent({ wamid: `wamid.${n % 40}`, status: statuses[n % 3] as string, secret: null }),
  );
  // Each event goes to both, in groups of another size and order.
  const outcomes = await Promise.all(
    receivers.map((receiver, place) => {
      const own = place === 0 ? sent : sent.toReversed();
      return Promise.all(groups(own, 7 + place * 4).map((group) => receiver.accept(group)));
    }),
  );
  const all = outcomes.flat(2);
  expect([
    all.filter(({ result }) => result === "accepted").length,
    all.filter(({ result }) => result === "duplicate").length,
  ]).toEqual([300, 300]);
  const [store] = receivers as [OneStore, OneStore];
  const stored = await store.rows(events);
  expect([stored.length, stored.reduce((sum, { duplicates }) => sum + duplicates, 0)]).toEqual([
    300, 300,
  ]);
  expect(await store.rows(subjects)).toHaveLength(40);
  expect(
    (await store.rows(counters))
      .filter(({ series }) => series === "events")
      .reduce((sum, { n }) => sum + n, 0),
  ).toBe(300);

  // All go out, each message in the order of its events.
  const last = new Map<number, number>();
  for (let now = start; last.size < 40 || (await store.rows(queue)).length > 0; now += 1_000) {
    const due = await store.due("crm", now);
    expect(new Set(due.map(({ lane }) => lane)).size).toBe(due.length);
    for (const { lane, event } of due) {
      expect(event).toBeGreaterThan(last.get(lane) ?? 0);
      last.set(lane, event);
    }
    await Promise.all(
      groups(due, 9).map((group, place) =>
        receivers[place % 2]?.settle(
          group.map((delivery) => settlementOf(delivery, "delivered", now)),
        ),
      ),
    );
  }
  expect(await store.rows(deliveries)).toHaveLength(300);
});

test("no event appears below the horizon, also behind a number that was rolled back", async () => {
  await using shared = await emptyShared();
  await using store = await shared.open(rules);
  const sessions = shared.sessions();
  const { look } = createHorizon(sessions.read);
  await store.accept([anEvent(), anEvent()]);
  await until("both are final", async () => (await look()) === 2);

  await using observer = await openSession(shared.url);
  const gate = await closeGate(observer);
  const gap = sessions
    .transact(function* () {
      // As the runner does: the transaction gets its own number first.
      yield* rows(sql`SELECT pg_current_xact_id()`);
      yield* rows(sql`SELECT nextval('events_seq')`);
      yield* passGate();
      throw new Error("rolled back");
    })
    .catch(() => {});
  await gate.reached();
  await store.accept([anEvent()]);
  for (let n = 0; n < 5; n += 1) expect(await look()).toBe(2);
  await gate.open();
  await gap;
  await until("the gap is passed", async () => (await look()) === 4);
  expect((await store.rows(events)).map(({ seq }) => seq)).toEqual([1, 2, 4]);
});

function groups<T>(list: readonly T[], size: number): T[][] {
  return Array.from({ length: Math.ceil(list.length / size) }, (_, place) =>
    list.slice(place * size, (place + 1) * size),
  );
}

test("repeats of an event that come to two receivers at once are all counted", async () => {
  await using shared = await emptyShared();
  const receivers = await Promise.all(
    ["one", "two"].map((writer) => shared.open(rules, { writer })),
  );
  const event = anEvent({ event: "order.paid" });
  await receivers[0]?.accept([event]);
  for (let round = 0; round < 20; round += 1)
    await Promise.all(receivers.map((receiver) => receiver.accept([event, event])));
  expect(await receivers[0]?.rows(events)).toMatchObject([{ duplicates: 80 }]);
});
