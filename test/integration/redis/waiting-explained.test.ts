import type { Redis as Client } from "ioredis";
import { expect, test } from "vitest";
import { createExplaining } from "../../../src/app/explaining.ts";
import { createReadingPort } from "../../../src/app/reading.ts";
import { keysOf } from "../../../src/store/redis/keys.ts";
import { createRedisStore, type RedisStore } from "../../../src/store/redis/open.ts";
import { createReadWaiting } from "../../../src/store/redis/read-stories.ts";
import type { EventDetail, EventFilter } from "../../../src/store/views.ts";
import { anEvent, type EventParts, rulesFor, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const routes = [{ name: "all" }];
const { storeOf, client } = storesOnRedis(routes);
const everything = { after: 0, before: Number.MAX_SAFE_INTEGER };
const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, n) => from + n);

async function planAll(store: RedisStore): Promise<void> {
  while ((await store.planning.planSome(start)).left !== "none");
}

/** What is told of a name: of each story its account, whether its message is known, and of each event its seq, word and what waits before it. */
async function told(store: RedisStore, name: string, query: { account?: string; after?: number; limit?: number } = {}) {
  const { explain } = createExplaining({ read: store.read, now: () => start, breakers: () => new Map() });
  const { stories, unseen } = await explain({ name, limit: 50, ...query });
  return {
    stories: stories.map(({ message, events, next }) => ({
      account: message?.account ?? events[0]?.event.account,
      known: message !== null,
      events: events.map(({ event, waits }) => [event.seq, (event as EventDetail).disposition, waits?.ahead ?? null]),
      next,
    })),
    unseen,
  };
}

const listed = async (store: RedisStore, wamid: string, filter: Partial<EventFilter> = {}) =>
  (await store.read.events.list({ wamid, limit: 100, ...filter })).events.map(({ seq }) => seq);

/** The pages of a list one after the other, as whoever asks gets them. */
async function pagesOf(store: RedisStore, wamid: string, limit: number, disposition?: "accepted" | "routed") {
  const reading = createReadingPort(store.read, { stats: () => Promise.reject(new Error("nobody counts")) });
  const pages: (readonly [seqs: number[], unseen: number])[] = [];
  for (let before: number | undefined; ; ) {
    const { data, next, unseen } = await reading.listEvents({ wamid, limit, before, disposition }, false);
    pages.push([data.map(({ seq }) => seq), unseen]);
    if (next === null) return pages;
    before = next;
  }
}

/** A link that does something more after one of its calls of Redis. */
function linkWith(moment: number, then: () => Promise<void>) {
  let calls = 0;
  return {
    calls: () => calls,
    async run<T>(command: (client: Client) => Promise<T>): Promise<T> {
      const answer = await command(client());
      calls += 1;
      if (calls === moment) await then();
      return answer;
    },
  };
}

test("explains a message with unplanned, then mixed, then planned events", async () => {
  const [receiver, worker] = [storeOf("told", true), storeOf("told")];
  const accept = (wamid: string, status: string, at: number) => receiver.accept(anEvent({ wamid, status, receivedAt: start + at }));
  await accept("w1", "sent", 1);
  await accept("w2", "sent", 2);
  await accept("w1", "delivered", 3);
  const waits = (...events: [number, number][]) => events.map(([seq, ahead]) => [seq, "accepted", ahead]);
  const unknown = { account: "main", known: false, next: null };
  expect(await told(receiver, "w1")).toEqual({ stories: [{ ...unknown, events: waits([1, 0], [3, 2]) }], unseen: 0 });
  expect(await told(receiver, "2")).toMatchObject({ stories: [{ known: false, events: waits([2, 1]) }] });
  await planAll(worker);
  await accept("w3", "sent", 4);
  await accept("w1", "read", 5);
  const planned = [1, 3].map((seq) => [seq, "routed", null]);
  const known = { account: "main", known: true, next: null };
  expect(await told(receiver, "w1")).toEqual({ stories: [{ ...known, events: [...planned, ...waits([5, 1])] }], unseen: 0 });
  // Page after page.
  expect(await told(worker, "w1", { limit: 2 })).toMatchObject({ stories: [{ events: planned, next: 3 }] });
  expect(await told(worker, "w1", { after: 3 })).toMatchObject({ stories: [{ events: waits([5, 1]), next: null }] });
  expect(await told(worker, "w1", { after: 5 })).toMatchObject({ stories: [{ events: [], next: null }] });
  expect(await listed(worker, "w1")).toEqual([5, 3, 1]);
  await planAll(worker);
  const last = [5, "routed", null];
  expect(await told(receiver, "w1")).toEqual({ stories: [{ ...known, events: [...planned, last] }], unseen: 0 });
});

test("explains a registered message by its reference, with its unplanned events", async () => {
  const receiver = storeOf("named", true);
  await receiver.register([{ account: "main", wamid: "w1", id: "service-1", reference: "order-1" }], start);
  await receiver.accept(anEvent({ wamid: "order-2" }));
  await receiver.accept(anEvent({ wamid: "w1" }));
  for (const name of ["w1", "service-1", "order-1"]) {
    expect(await told(receiver, name)).toMatchObject({ stories: [{ known: true, events: [[2, "accepted", 1]] }] });
  }
});

test("shows an unplanned event that the relay made once", async () => {
  const receiver = storeOf("learned", true);
  await receiver.accept({ ...anEvent({ wamid: "w1" }), origin: "reconcile" });
  expect(await receiver.read.stories.eventsOf("message", "main", "w1", 0, 9)).toEqual([1]);
  expect(await told(receiver, "w1")).toMatchObject({ stories: [{ events: [[1, "accepted", 0]] }] });
  expect(await listed(receiver, "w1")).toEqual([1]);
});

test("does not show events of messages and accounts with similar names", async () => {
  const receiver = storeOf("alike", true);
  const wamids = ["w1", "w", "w11", "1", "W1", "w:1", ":w1", "main:w1", 'w1"', 'w1",', 'w1\\",', "w1\\", "w1\n", "wá1", "x".repeat(300)];
  const accounts = ["main", "m", "a".repeat(64)];
  const sent: EventParts[] = accounts.flatMap((account) => wamids.map((wamid) => ({ account, wamid })));
  for (const parts of sent) await receiver.accept(anEvent(parts));
  await receiver.accept(anEvent({ runId: "w1" }));
  for (const wamid of wamids) {
    const mine = range(1, sent.length).filter((seq) => sent[seq - 1]?.wamid === wamid);
    expect([wamid, await listed(receiver, wamid)]).toEqual([wamid, mine.toReversed()]);
    const { stories } = await told(receiver, wamid);
    const seqs = stories.slice(0, 3).map(({ events }) => events.map(([seq]) => seq));
    // A name of digits is a seq first of all.
    if (wamid !== "1") expect([wamid, seqs]).toEqual([wamid, mine.map((seq) => [seq])]);
    const of = await told(receiver, wamid, { account: "m" });
    if (wamid !== "1") expect(of.stories.flatMap(({ events }) => events[0]?.[0])).toContain(mine[1]);
  }
  const { stories } = await told(receiver, "w1", { account: "m" });
  expect(stories).toEqual([{ account: "m", known: false, events: [[wamids.length + 1, "accepted", wamids.length]], next: null }]);
  expect(await told(receiver, "w2")).toEqual({ stories: [], unseen: 0 });
});

test("searches in portions without losing or repeating events", async () => {
  const receiver = storeOf("borders", true);
  const mine = [1, 2, 250, 500, 501, 502, 1_000, 1_001, 1_200];
  await Promise.all(range(1, 1_200).map((seq) => receiver.accept(anEvent({ wamid: mine.includes(seq) ? "w1" : "other" }))));
  const found = async (where = everything) => {
    const { events, unseen } = await receiver.read.stories.waitingOf(["nobody", "w1"], where);
    expect(events.every(({ account, wamid }) => account === "main" && wamid === "w1")).toBe(true);
    return [events.map(({ seq }) => seq), unseen];
  };
  expect(await found()).toEqual([mine, 0]);
  expect(await found({ after: 1, before: 1_200 })).toEqual([mine.slice(1, -1), 0]);
  expect(await found({ after: 500, before: 1_001 })).toEqual([[501, 502, 1_000], 0]);
  for (const where of [
    { after: 1_200, before: 1_201 },
    { after: 3, before: 3 },
    { after: 9, before: 4 },
  ])
    expect(await found(where)).toEqual([[], 0]);
  expect(await listed(receiver, "w1", { before: 1_001, limit: 3 })).toEqual([1_000, 502, 501]);
  expect(await listed(receiver, "w1", { disposition: "accepted" })).toEqual(mine.toReversed());
  expect(await listed(receiver, "w1", { disposition: "routed" })).toEqual([]);
  expect([await receiver.read.stories.ahead(1), await receiver.read.stories.ahead(777)]).toEqual([0, 776]);
  expect(await receiver.read.stories.ahead(1_201)).toBeNull();
});

test("finds events that are planned between two portions", async () => {
  for (let moment = 1, calls = moment; calls >= moment; moment += 1) {
    const prefix = `between-${moment}`;
    const [receiver, worker] = [storeOf(prefix, true), storeOf(prefix)];
    const mine = [1, 400, 600, 1_100];
    await Promise.all(range(1, 1_100).map((seq) => receiver.accept(anEvent({ wamid: mine.includes(seq) ? "w1" : "other" }))));
    const link = linkWith(moment, () => planAll(worker));
    const { events } = await createReadWaiting(keysOf(prefix), link).waitingOf(["w1"], everything);
    calls = link.calls();
    expect(calls).toBe(Math.min(3, moment + 1));
    const waited = events.map(({ seq }) => seq);
    expect(new Set(waited).size).toBe(waited.length);
    const planned = await receiver.read.stories.eventsOf("message", "main", "w1", 0, 100);
    expect([...new Set([...planned, ...waited])].sort((a, b) => a - b)).toEqual(mine);
  }
});

test("explains each event once at any moment of planning", async () => {
  let moments = 0;
  for (let moment = 1, calls = moment; calls >= moment; moment += 1) {
    const prefix = `planned-${moment}`;
    const [receiver, worker] = [storeOf(prefix, true), storeOf(prefix)];
    for (const wamid of ["w1", "w2", "w1"]) await receiver.accept(anEvent({ wamid }));
    const link = linkWith(moment, () => planAll(worker));
    const store = createRedisStore(link, prefix, rulesFor(routes), { committed: () => {} });
    const { stories } = await told(store, "w1");
    calls = link.calls();
    await store.close();
    expect([moment, stories.length, stories[0]?.events.map(([seq]) => seq)]).toEqual([moment, 1, [1, 3]]);
    // Its message is known, or none of its events was planned as yet.
    if (stories[0]?.known === false) expect(stories[0].events.map(([, word]) => word)).toEqual(["accepted", "accepted"]);
    moments += 1;
  }
  expect(moments).toBeGreaterThan(8);
});

test("lists each event once at any moment of planning", async () => {
  for (let moment = 1, calls = moment; calls >= moment; moment += 1) {
    const prefix = `listed-${moment}`;
    const [receiver, worker] = [storeOf(prefix, true), storeOf(prefix)];
    for (const wamid of ["w1", "w2", "w1"]) await receiver.accept(anEvent({ wamid }));
    const link = linkWith(moment, () => planAll(worker));
    const store = createRedisStore(link, prefix, rulesFor(routes), { committed: () => {} });
    expect([moment, await listed(store, "w1")]).toEqual([moment, [3, 1]]);
    calls = link.calls();
    await store.close();
  }
});

test("searches the newest fifty thousand unplanned events, and reports the number of others", async () => {
  const receiver = storeOf("bound", true);
  for (const wamid of ["w1", "w2", "w1"]) await receiver.accept(anEvent({ wamid }));
  // Of which nothing is there but that they wait: they only have to be passed.
  const push = async (from: number, to: number) => {
    for (let seq = from; seq <= to; seq += 10_000) {
      await client().rpush("{bound}:unplanned", ...range(seq, Math.min(to, seq + 9_999)).map(String));
    }
    await client().set("{bound}:seq", String(to));
  };
  await push(4, 50_001);
  expect(await told(receiver, "w1")).toMatchObject({ stories: [{ events: [[3, "accepted", 2]] }], unseen: 1 });
  await receiver.accept(anEvent({ wamid: "w2" }));
  expect(await told(receiver, "w1")).toMatchObject({ stories: [{ events: [[3, "accepted", 2]] }], unseen: 2 });
  expect(await told(receiver, "w2")).toMatchObject({ stories: [{ events: [[50_002, "accepted", 50_001]] }], unseen: 2 });
  await receiver.accept(anEvent({ wamid: "w3" }));
  expect(await told(receiver, "w1")).toEqual({ stories: [], unseen: 3 });
  // By its id or seq it is told as ever, and where less is asked for the rest is in reach.
  expect(await told(receiver, "3")).toMatchObject({ stories: [{ events: [[3, "accepted", 2]] }], unseen: 0 });
  expect(await told(receiver, "w2", { after: 2 })).toMatchObject({ unseen: 1 });
  expect(await listed(receiver, "w1", { before: 50_001 })).toEqual([3, 1]);
});

test("a list by wamid reports unsearched events on the page that omits them only", async () => {
  const [receiver, worker] = [storeOf("paged", true), storeOf("paged")];
  for (const wamid of ["w1", "w2"]) await receiver.accept(anEvent({ wamid }));
  await planAll(worker);
  for (const wamid of ["w1", "w1", "w2", "w1"]) await receiver.accept(anEvent({ wamid }));
  await client().rpush("{paged}:unplanned", ...range(7, 50_003).map(String));
  await client().set("{paged}:seq", "50003");
  await receiver.accept(anEvent({ wamid: "w1" }));
  // Out of reach are 3 and 4, which are of w1.
  expect(await pagesOf(receiver, "w1", 100)).toEqual([[[50_004, 6, 1], 2]]);
  expect(await pagesOf(receiver, "w1", 3)).toEqual([
    [[50_004, 6, 1], 2],
    [[], 0],
  ]);
  expect(await pagesOf(receiver, "w1", 2)).toEqual([
    [[50_004, 6], 0],
    [[4, 3], 0],
    [[1], 0],
  ]);
  expect(await pagesOf(receiver, "w2", 100)).toEqual([[[5, 2], 2]]);
  expect(await pagesOf(receiver, "nobody", 100)).toEqual([[[], 2]]);
  // None of these waits.
  expect(await pagesOf(receiver, "w1", 100, "routed")).toEqual([[[1], 0]]);
  expect(await pagesOf(receiver, "w1", 100, "accepted")).toEqual([[[50_004, 6], 2]]);
  expect(await receiver.read.events.list({ limit: 1 })).toMatchObject({ events: [{ seq: 50_004 }], unseen: 0 });
});
