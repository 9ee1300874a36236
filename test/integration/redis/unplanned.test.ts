import type { Redis as Client } from "ioredis";
import { describe, expect, test } from "vitest";
import type { AuditRule } from "../../../src/model/audit.ts";
import { readEventRow, writeEventRow } from "../../../src/store/redis/event-rows.ts";
import { keysOf, padSeq } from "../../../src/store/redis/keys.ts";
import { rowJson } from "../../../src/store/redis/rows.ts";
import { type OpenedStore, openRedisStore } from "../../contract/redis-queue.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const routes = [{ name: "all" }, { name: "ours", match: { events: ["message.*"], tracked: true } }];
const { storeOf, client } = storesOnRedis(routes);
const day = 86_400_000;
const keep = { events: 30 * day, ignored: day, deliveries: 7 * day, messages: 180 * day, history: 400 * day };

const audit = (store: OpenedStore, now = start) => store.inspecting.audit({ now, isRunning: true, mostOffenders: 100 }, () => {});

async function planAll(store: OpenedStore): Promise<number> {
  let planned = 0;
  for (;;) {
    const done = await store.planning.planSome(start);
    planned += done.planned.length;
    if (done.left === "none") return planned;
  }
}

/** A whole pass of retention; gives how many events it took. */
async function purgeAll(store: OpenedStore, now: number): Promise<number> {
  let events = 0;
  for (let steps = 0; steps < 1_000; steps += 1) {
    const purged = await store.purge(now, keep, 50);
    events += purged.events;
    if (purged.done) return events;
  }
  throw new Error("retention never came to an end");
}

async function deliverAll(store: OpenedStore, at: number): Promise<void> {
  for (const route of ["all", "ours"]) {
    for (let due = await store.due(route, at, 100); due.length > 0; due = await store.due(route, at, 100)) {
      for (const event of due) {
        const result = { kind: "answered", status: 200, retryAfterMs: null } as const;
        await store.settle({
          route,
          event,
          attempt: { number: 1, at, tookMs: 1, result, response: null },
          settled: { to: "delivered" },
          at,
        });
      }
    }
  }
}

/** A receiver that accepted three events about messages and planned one about nothing; and a worker. */
async function aReceiver(prefix: string) {
  const [receiver, worker] = [storeOf(prefix, true), storeOf(prefix)];
  for (let n = 1; n <= 3; n += 1) await receiver.accept(anEvent({ wamid: "w1", id: `${prefix}-${n}`, receivedAt: start + n }));
  await receiver.accept(anEvent({ event: "account.note", receivedAt: start + 4 }));
  return { receiver, worker, keys: keysOf(prefix) };
}

/**
 * Does it again and again with a store of its own, each time with everything planned by a worker after one more of that
 * store's calls of Redis, and at last after none of them.
 */
async function atEachMoment<T>(prefix: string, run: (store: OpenedStore, worker: OpenedStore) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  for (let moment = 1, calls = moment; calls >= moment; moment += 1) {
    const { worker } = await aReceiver(`${prefix}-${moment}`);
    calls = 0;
    const link = {
      async run<A>(command: (client: Client) => Promise<A>): Promise<A> {
        const answer = await command(client());
        calls += 1;
        if (calls === moment) await planAll(worker);
        return answer;
      },
    };
    const store = openRedisStore(link, `${prefix}-${moment}`, rulesFor(routes), { committed: () => {} });
    results.push(await run(store, worker));
    await store.close();
  }
  return results;
}

test("counts unplanned events and their age until they are planned", async () => {
  const { receiver, worker } = await aReceiver("counted");
  expect(await worker.read.unplanned()).toEqual({ events: 3, oldestAt: start + 1 });
  await planAll(worker);
  expect(await receiver.read.unplanned()).toEqual({ events: 0, oldestAt: null });
});

test("lists, finds and streams an unplanned event as accepted, without its message", async () => {
  const { receiver, worker } = await aReceiver("seen");
  const listed = async (filter: object) => (await receiver.read.events.list({ limit: 10, ...filter })).events.map(({ seq }) => seq);
  expect(await listed({ disposition: "accepted" })).toEqual([3, 2, 1]);
  expect(await listed({ disposition: "routed" })).toEqual([4]);
  expect(await listed({ wamid: "w1" })).toEqual([3, 2, 1]);
  expect(await receiver.read.events.get(1)).toMatchObject({
    disposition: "accepted",
    subject: { type: "message", key: "w1" },
    status: "sent",
    previousStatus: null,
    transition: false,
    parkedUntil: null,
    verdicts: [],
    hydration: null,
  });
  const page = await receiver.read.listen.page(0, { row: () => true, event: null });
  expect(page(({ events }) => events.map(({ seq, disposition }) => [seq, disposition]))).toEqual([
    [1, "accepted"],
    [2, "accepted"],
    [3, "accepted"],
    [4, "routed"],
  ]);
  expect(await receiver.read.messages.find("w1")).toEqual([]);
  expect((await receiver.inspecting.stats()).dispositions).toMatchObject({ accepted: 3, routed: 1 });
  await planAll(worker);
  expect(await listed({ disposition: "accepted" })).toEqual([]);
  expect(await listed({ wamid: "w1" })).toEqual([3, 2, 1]);
  expect(await receiver.read.messages.find("w1")).toHaveLength(1);
});

test("only planning changes an unplanned event", async () => {
  const { receiver, worker, keys } = await aReceiver("left-alone");
  const rows = () => client().mget([1, 2, 3].map(keys.event));
  const before = await rows();
  const late = start + day;
  await worker.register([{ account: "main", wamid: "w1" }], late);
  expect(await worker.expireParked(late, 100)).toBe(0);
  const cursor = { since: late, event: 0, route: 0 };
  for (const disposition of ["filtered", "ignored"] as const) {
    expect((await worker.findBackfill({ disposition }, cursor, 10)).found).toEqual([]);
    expect(await worker.backfill([1, 2, 3], { disposition }, late)).toEqual({ replayed: 0, due: [] });
  }
  const states = ["dead", "delivered"] as const;
  expect((await worker.findReplay({ states }, cursor, late, 10)).found).toEqual([]);
  expect(await worker.replay([{ event: 1, route: "all" }], states, late)).toEqual({ replayed: 0, due: [] });
  expect(await worker.retry(1, "all", late)).toBeNull();
  expect(await worker.beginPass("main", late)).toBeNull();
  expect((await receiver.accept(anEvent({ wamid: "w1", id: "left-alone-1" }))).result).toBe("duplicate");
  expect(await rows()).toEqual(before);
  // The pipe was alive: the registration counts for the events that came before it and are planned after it.
  expect(await planAll(worker)).toBe(3);
  expect((await worker.due("ours", late, 10)).length).toBe(1);
});

describe("audit", () => {
  test("unplanned and planned events pass", async () => {
    const { receiver, worker } = await aReceiver("sound");
    const before = await audit(receiver, start + 90 * day);
    expect(before.offenders).toEqual([]);
    expect(before.events).toMatchObject({ received: 4, accepted: 3, routed: 1, unaccounted: 0 });
    await planAll(worker);
    const after = await audit(worker);
    expect(after.offenders).toEqual([]);
    expect(after.events).toMatchObject({ received: 4, accepted: 0, routed: 4, unaccounted: 0 });
  });

  type Damage = (parts: Awaited<ReturnType<typeof aReceiver>>) => Promise<unknown>;
  const change = (seq: number, parts: Parameters<typeof Object.assign>[1]): Damage => {
    return async ({ keys }) => {
      const text = String(await client().get(keys.event(seq)));
      const [head, body] = [text.slice(0, 10), text.slice(text.indexOf("\n"))];
      await client().set(keys.event(seq), head + writeEventRow({ ...readEventRow(rowJson(text)), ...parts }) + body);
    };
  };

  const faults: readonly [string, Damage, AuditRule, number][] = [
    ["out of turn", ({ keys }) => client().lrem(keys.of("unplanned"), 1, "2"), "planning broken", 2],
    ["planned, and in turn", ({ keys }) => client().rpush(keys.of("unplanned"), "4"), "planning broken", 4],
    ["called planned, and in turn", change(2, { disposition: "filtered", plan: null }), "planning broken", 2],
    ["no such event", ({ keys }) => client().del(keys.event(3)), "planning broken", 3],
    ["a plan", change(2, { plan: "any" }), "wrong disposition", 2],
    ["parked", change(2, { parkedUntil: start }), "wrong disposition", 2],
    ["a status before it", change(2, { previousStatus: "sent" }), "wrong disposition", 2],
    ["a transition", change(2, { moved: true }), "wrong disposition", 2],
    ["in its message's story", ({ keys }) => client().zadd(keys.of("es:m:main:w1"), 2, "2"), "wrong disposition", 2],
    ["among the ignored", ({ keys }) => client().zadd(keys.of("ignored"), start, "2"), "wrong disposition", 2],
    ["among the parked", ({ keys }) => client().zadd(keys.of("parked"), start, padSeq(2)), "wrong disposition", 2],
    ["a delivery", ({ keys }) => client().hset(keys.delivery(2, "all"), "s", "0", "n", start), "delivery not planned", 2],
    ["its id leads elsewhere", ({ keys }) => client().del(keys.of("id:main:its-id-leads-elsewhere-2")), "id repeated", 2],
  ];

  test.each(faults)("%s: counts as unaccounted", async (name, damage, rule, event) => {
    const parts = await aReceiver(name.replaceAll(/\W+/g, "-"));
    await damage(parts);
    const report = await audit(parts.worker);
    expect(report.balanced).toBe(false);
    expect(report.offenders).toContainEqual(expect.objectContaining({ rule, event }));
    expect(new Set(report.offenders.map((offender) => offender.event))).toEqual(new Set([event]));
    expect(report.events.unaccounted).toBe(rule === "planning broken" && event === 3 ? 0 : 1);
  });

  test("finds all of many unplanned events in turn", async () => {
    const [receiver, worker] = [storeOf("many", true), storeOf("many")];
    const accepted = Array.from({ length: 2_500 }, (_, n) => receiver.accept(anEvent({ wamid: `w${n}` })));
    await Promise.all(accepted);
    const report = await audit(worker);
    expect(report.offenders).toEqual([]);
    expect(report.events).toMatchObject({ received: 2_500, accepted: 2_500 });
    await client().lrem("{many}:unplanned", 1, "1777");
    expect((await audit(worker)).offenders.map(({ rule, event }) => [rule, event])).toEqual([["planning broken", 1_777]]);
  });

  test("ignores what is planned at any moment of an audit", async () => {
    const counted = await atEachMoment("audited", async (store) => {
      const { offenders, events } = await audit(store);
      expect(offenders).toEqual([]);
      expect(events).toMatchObject({ received: 4, unaccounted: 0 });
      return events.accepted;
    });
    expect([counted[0], counted.at(-1)]).toEqual([0, 3]);
  });
});

describe("retention", () => {
  test("keeps an unplanned event whatever its age, and purges it after it was planned", async () => {
    const { receiver, worker, keys } = await aReceiver("kept");
    // The greatest one stays always.
    await receiver.accept(anEvent({ event: "contact.created", receivedAt: start + 400 * day }));
    await deliverAll(worker, start + 4);
    // As deliveries get old, and as events do; and at a later look.
    for (const now of [start + 8 * day, start + 31 * day, start + 33 * day, start + 300 * day]) {
      await purgeAll(worker, now);
      expect((await worker.read.events.list({ limit: 10 })).events.map(({ seq }) => seq)).toEqual(
        now < start + 30 * day ? [5, 4, 3, 2, 1] : [5, 3, 2, 1],
      );
      expect(await worker.read.unplanned()).toEqual({ events: 3, oldestAt: start + 1 });
      expect((await audit(worker, now)).offenders).toEqual([]);
    }
    expect(await planAll(worker)).toBe(3);
    await purgeAll(worker, start + 302 * day);
    expect(await worker.read.events.get(1)).toMatchObject({ disposition: "routed" });
    await deliverAll(worker, start + 302 * day);
    // Kept as long as deliveries are, from when they were made.
    expect(await purgeAll(worker, start + 304 * day)).toBe(0);
    expect(await purgeAll(worker, start + 310 * day)).toBe(3);
    const left = (await client().keys(keys.of("*"))).map((name) => name.slice(keys.base.length));
    expect(left.filter((name) => /^(kept|unplanned|[de]:[1-4]\b|es:)/.test(name))).toEqual([]);
  });

  test("an event planned at any moment of a purge stays whole, and is purged in time", async () => {
    const old = start + 40 * day;
    await atEachMoment("purged", async (store, worker) => {
      await worker.accept(anEvent({ event: "contact.created", receivedAt: old }));
      await deliverAll(worker, start + 4);
      expect(await purgeAll(store, old)).toBe(1);
      await planAll(worker);
      // As a relay that works does at once.
      await worker.expireParked(old, 100);
      expect((await audit(worker, old)).offenders).toEqual([]);
      await deliverAll(worker, old);
      expect(await purgeAll(worker, old + 9 * day)).toBe(3);
    });
  });
});
