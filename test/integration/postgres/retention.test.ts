import { expect, test } from "vitest";
import { minuteMs } from "../../../src/model/history.ts";
import { createCommands } from "../../../src/store/create-store.ts";
import { codeOf } from "../../../src/store/schema/codes.ts";
import {
  counters,
  deliveries,
  events,
  queue,
  queueState,
  subjects,
} from "../../../src/store/schema/tables.ts";
import type { Work } from "../../../src/store/sql/ops.ts";
import { type Counts, createCounting, rollUp } from "../../../src/store/work/counts.ts";
import { createRetention } from "../../../src/store/work/retention.ts";
import { emptyShared, settlementOf } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { anotherWaits, closeGate, held } from "../../harness/postgres-gate.ts";
import { openSession } from "../../harness/postgres-session.ts";

const day = 86_400_000;
const later = start + 40 * day;
const keep = {
  events: 30 * day,
  ignored: day,
  deliveries: 30 * day,
  messages: 60 * day,
  history: 60 * day,
};

/**
 * A store whose retention and one more command run at once. An event that came last keeps its
 * place.
 */
async function openBoth(rules = rulesFor([{ name: "crm" }])) {
  const shared = await emptyShared();
  const store = await shared.open(rules);
  const observer = await openSession(shared.url);
  const purge = createRetention(store.run);
  return {
    store,
    commands: createCommands({ rules, writer: "other", held: () => null }),
    /**
     * Ends only when the other command has: it is held in its transaction until `end` is waited
     * for.
     */
    async begin<T>(work: () => Work<T>) {
      const gate = await closeGate(observer);
      const running = shared.sessions().transact(() => held(work()));
      await gate.reached();
      return async (): Promise<T> => {
        await gate.open();
        return running;
      };
    },
    waits: () => anotherWaits(observer),
    async purgeAll() {
      const sum = { events: 0, deliveries: 0, messages: 0 };
      for (let done = false; !done; ) {
        const purged = await purge(later, keep, 100);
        sum.events += purged.events;
        sum.deliveries += purged.deliveries;
        sum.messages += purged.messages;
        done = purged.done;
      }
      return sum;
    },
    async [Symbol.asyncDispose]() {
      await observer[Symbol.asyncDispose]();
      await shared[Symbol.asyncDispose]();
    },
  };
}

async function deliver(store: Awaited<ReturnType<typeof openBoth>>["store"]) {
  await store.settle(
    (await store.due("crm", start)).map((delivery) => settlementOf(delivery, "delivered", start)),
  );
}

test("keeps an event whose delivery is being replayed", async () => {
  await using both = await openBoth();
  const { store, commands, begin, waits, purgeAll } = both;
  await store.accept([
    anEvent({ wamid: "w" }),
    anEvent({ wamid: "other" }),
    anEvent({ wamid: "last", receivedAt: later }),
  ]);
  await deliver(store);
  const end = await begin(() => commands.retry.work([{ event: 1, route: "crm", at: later }]));
  const purging = purgeAll();
  await waits();
  await end();
  expect(await purging).toEqual({ events: 1, deliveries: 1, messages: 0 });
  expect((await store.rows(events)).map(({ seq }) => seq)).toEqual([1, 3]);
  expect((await store.rows(queue)).find(({ event }) => event === 1)).toMatchObject({
    state: queueState.waiting,
  });
  expect(await store.due("crm", later)).toMatchObject([{ event: 1, attempts: 1 }, { event: 3 }]);
});

test("keeps an old event whose delivery is being settled", async () => {
  await using both = await openBoth();
  const { store, commands, begin, purgeAll } = both;
  await store.accept([anEvent({ wamid: "w" }), anEvent({ wamid: "last", receivedAt: later })]);
  const [due] = await store.due("crm", start);
  const end = await begin(() =>
    commands.settle.work([settlementOf(due as never, "delivered", later)]),
  );
  expect(await purgeAll()).toMatchObject({ events: 0, deliveries: 0 });
  await end();
  expect(await store.rows(deliveries)).toMatchObject([{ event: 1 }]);
  expect((await store.rows(events)).map(({ seq }) => seq)).toEqual([1, 2]);
});

test("keeps an ignored event that is being backfilled", async () => {
  await using both = await openBoth(
    rulesFor([{ name: "crm", match: { events: ["message.*"], tracked: true } }], {
      unknown: "ignore",
    }),
  );
  const { store, begin, waits, purgeAll } = both;
  await store.accept([
    anEvent({ wamid: "w" }),
    anEvent({ wamid: "v" }),
    anEvent({ wamid: "last", receivedAt: later }),
  ]);
  const routes = createCommands({
    rules: rulesFor([{ name: "crm" }]),
    writer: "other",
    held: () => null,
  });
  const end = await begin(() =>
    routes.backfill.work([{ events: [1], filter: { disposition: "ignored" }, at: later }]),
  );
  const purging = purgeAll();
  await waits();
  await end();
  expect(await purging).toMatchObject({ events: 1 });
  expect(await store.rows(events)).toMatchObject([
    { seq: 1, disposition: codeOf.disposition.routed },
    { seq: 3 },
  ]);
  expect(await store.due("crm", later)).toMatchObject([{ event: 1 }]);
});

test("keeps a message about which an event is being accepted", async () => {
  await using both = await openBoth();
  const { store, commands, begin, waits, purgeAll } = both;
  for (const wamid of ["w", "v"])
    await store.register([{ account: "main", wamid }], start - 30 * day);
  await store.register([{ account: "main", wamid: "last" }], later);
  const event = anEvent({ wamid: "v", status: "read", receivedAt: later });
  const end = await begin(() => commands.accept.work([{ event, proxyRoute: null }]));
  const purging = purgeAll();
  await waits();
  await end();
  expect(await purging).toMatchObject({ messages: 1 });
  expect(await store.rows(subjects)).toMatchObject([
    { name: "v", status: "read" },
    { name: "last" },
  ]);
});

const minute = start / minuteMs;
function* count(n: number, writer: string): Work<void> {
  const counts: Counts = createCounting(writer).begin();
  for (const at of [minute, minute + 1])
    counts.add({ at, account: "main", series: "events", of: "main", label: "routed" }, n);
  yield* counts.write();
}
const sumOf = (rows: readonly { n: number }[]): number => rows.reduce((sum, { n }) => sum + n, 0);

test("a late count is in its hour, whether it comes before or during the roll-up", async () => {
  await using both = await openBoth();
  const { store, begin, waits } = both;
  await store.run(() => count(1, "a"));
  await store.run(() => count(10, "b"));
  const endCount = await begin(() => count(100, "a"));
  const rolling = store.run(() => rollUp(later, 100));
  await waits();
  await endCount();
  expect(await rolling).toBe(4);
  expect(await store.rows(counters)).toMatchObject([
    { at: -(minute - (minute % 60)), writer: "", n: 222 },
  ]);

  await store.run(() => count(1, "a"));
  const endRolling = await begin(() => rollUp(later, 100));
  const counting = store.run(() => count(1000, "a"));
  await waits();
  await endRolling();
  await counting;
  expect(sumOf(await store.rows(counters))).toBe(2224);
  await store.run(() => rollUp(later, 100));
  expect(await store.rows(counters)).toMatchObject([{ n: 2224 }]);
});
