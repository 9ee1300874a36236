import { expect, onTestFinished, test } from "vitest";
import { fieldsSchema, polledEvent } from "../../../src/model/event.ts";
import type { Wamid } from "../../../src/model/ids.ts";
import { keysOf } from "../../../src/store/redis/keys.ts";
import type { Planned, Rules } from "../../../src/store/rules.ts";
import { type OpenedStore, openRedisStore } from "../../contract/redis-queue.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const { client } = storesOnRedis([]);
const routes = [
  { name: "all" },
  { name: "big", match: { where: { bytes: { $gt: 1000 } } } },
  { name: "holding", truncated: "hold" },
] as const;
const told: string[] = [];

interface Opened {
  readonly role?: "receive" | "both" | "work";
  readonly rules?: Rules;
}

/** The store of one process; closed at the end of the test. What it tells of events that wait is in `told`. */
function open(prefix: string, { role = "both", rules = rulesFor(routes) }: Opened = {}): OpenedStore {
  const hooks = { committed: () => {}, waiting: () => told.push(prefix) };
  const link = { run: <T>(command: (redis: ReturnType<typeof client>) => Promise<T>) => command(client()) };
  const store = openRedisStore(link, prefix, rules, hooks, role === "receive");
  onTestFinished(() => store.close());
  return store;
}

async function planAll(store: OpenedStore, at = start): Promise<Planned[]> {
  const planned: Planned[] = [];
  for (;;) {
    const done = await store.planning.planSome(at);
    planned.push(...done.planned);
    if (done.left !== "some") return planned;
  }
}

const unplanned = (prefix: string) => client().lrange(keysOf(prefix).of("unplanned"), 0, -1);

async function expectBalanced(store: OpenedStore, now = start): Promise<void> {
  const report = await store.inspecting.audit({ now, isRunning: true, mostOffenders: 100 }, () => {});
  expect(report, JSON.stringify(report.offenders)).toMatchObject({ balanced: true });
}

/** Of these the one that throws is the one that the rules cannot judge. */
function rulesThatFailOn(id: string): Rules {
  const rules = rulesFor(routes);
  return {
    ...rules,
    plan(event, tracking) {
      if ((event.data as { id?: string }).id === id) throw new Error(`no rule for ${id}`);
      return rules.plan(event, tracking);
    },
  };
}

const aNumbered = (n: number, wamid = "w") => anEvent({ wamid, status: "sent", data: { id: `number ${n}` }, receivedAt: start + n });

test("plans events with separate bodies by their content, and keeps the bytes", async () => {
  const [receiver, worker] = [open("large", { role: "receive" }), open("large")];
  const events = [10, 5_000, 20, 900, 200_000].map((size) => anEvent({ wamid: "w", data: { bytes: size, padding: "ß".repeat(size / 2) } }));
  for (const event of events) await receiver.accept(event);
  expect((await planAll(worker)).map(({ seq, due }) => [seq, due.map(({ route }) => route)])).toEqual([
    [1, ["all", "holding"]],
    [2, ["big"]],
    [3, []],
    [4, []],
    [5, []],
  ]);
  expect((await worker.read.deliveries.list({ route: "big", limit: 9 })).map(({ event }) => event)).toEqual([5, 2]);
  for (const [n, { body }] of events.entries()) expect((await worker.read.events.get(n + 1))?.body).toEqual(body);
  expect(await worker.load("big", 2)).toMatchObject({ body: events[1]?.body });
  await expectBalanced(worker);
});

test.each([
  ["the first of its message", 1],
  ["one of several of its message", 2],
])("an event on which the rules fail is filtered with a fault, and blocks no other: %s", async (name, odd) => {
  const prefix = `odd ${name}`;
  const receiver = open(prefix, { role: "receive" });
  const worker = open(prefix, { rules: rulesThatFailOn(`number ${odd}`) });
  for (const n of [1, 2, 3]) await receiver.accept(aNumbered(n));
  await receiver.accept(aNumbered(4, "another"));
  const fault = `could not be planned: no rule for number ${odd}`;
  const planned = await planAll(worker);
  expect(planned.map(({ seq, disposition, fault }) => [seq, disposition, fault])).toEqual(
    [1, 2, 3, 4].map((seq) => (seq === odd ? [seq, "filtered", fault] : [seq, "routed", null])),
  );
  // It is tracked all the same: the first one moved the status.
  expect(await worker.read.events.get(odd)).toMatchObject({ disposition: "filtered", fault, transition: odd === 1, verdicts: [] });
  expect(await worker.read.deliveries.list({ event: odd, limit: 9 })).toEqual([]);
  expect(await worker.read.stories.eventsOf("message", "main", "w", 0, 9)).toEqual([1, 2, 3]);
  expect(await worker.read.messages.find("w")).toMatchObject([{ status: "sent" }]);
  await expectBalanced(worker);
  // Rules that are right again plan it after all.
  const mended = open(prefix);
  expect(await mended.backfill([odd], { disposition: "filtered" }, start)).toMatchObject({ replayed: 2 });
  await expectBalanced(mended);
});

test("tracks a message whose only event could not be planned", async () => {
  const [receiver, worker] = [open("odd alone", { role: "receive" }), open("odd alone", { rules: rulesThatFailOn("number 1") })];
  await receiver.accept(aNumbered(1));
  await receiver.accept(aNumbered(2, "v"));
  await planAll(worker);
  expect(await worker.read.messages.find("w")).toMatchObject([{ wamid: "w", status: "sent" }]);
  const seen = await client().zrange(keysOf("odd alone").of("seen:m"), "0", "-1");
  expect(seen).toEqual(["m:main:w", "m:main:v"]);
  expect(await client().exists(...seen.map(keysOf("odd alone").of))).toBe(2);
  expect(await receiver.accept(aNumbered(3))).toMatchObject({ disposition: "accepted" });
  expect(await planAll(worker)).toMatchObject([{ seq: 3, disposition: "routed", fault: null }]);
  expect(await worker.read.messages.find("w")).toMatchObject([{ status: "sent" }]);
  await expectBalanced(worker);
});

test("reports rows and bodies that were deleted or damaged by hand, and plans the others", async () => {
  const keys = keysOf("deleted");
  const [receiver, worker] = [open("deleted", { role: "receive" }), open("deleted")];
  for (const n of [1, 2, 3]) await receiver.accept(aNumbered(n));
  await receiver.accept(anEvent({ wamid: "w", data: { padding: "x".repeat(2_000) } }));
  await receiver.accept(aNumbered(5));
  await receiver.accept(aNumbered(6));
  await client().del(keys.event(1), keys.event(3), keys.body(4));
  await client().set(keys.event(6), "no row");
  const { planned, lost } = await worker.planning.planSome(start);
  expect(planned.map(({ seq, disposition }) => [seq, disposition])).toEqual([
    [2, "routed"],
    [4, "filtered"],
    [5, "routed"],
  ]);
  expect(lost).toEqual(["1", "3", "6"]);
  expect(planned[1]?.fault).toMatch(/^could not be planned: /);
  expect(await unplanned("deleted")).toEqual([]);
  expect(await client().exists(keys.event(1), keys.event(3))).toBe(0);
  expect(await worker.planning.planSome(start)).toEqual({ planned: [], lost: [], left: "none" });
});

test("a duplicate of an unplanned event is found by every process, and a different body counts as a conflict", async () => {
  const [receiver, other, worker] = [open("again", { role: "receive" }), open("again", { role: "receive" }), open("again")];
  for (const size of [1, 2_000]) {
    const event = anEvent({ id: `of ${size}`, wamid: "w", status: "sent", data: { padding: "x".repeat(size) } });
    const changed = anEvent({ id: `of ${size}`, wamid: "w", status: "read", data: { padding: "y".repeat(size) } });
    const { seq } = await receiver.accept(event);
    for (const store of [receiver, other, worker]) {
      expect(await store.accept(event)).toEqual({ result: "duplicate", seq, conflict: false });
      expect(await store.accept(changed)).toEqual({ result: "duplicate", seq, conflict: true });
    }
    expect(await planAll(worker)).toMatchObject([{ seq, disposition: "routed" }]);
    expect(await receiver.accept(changed)).toEqual({ result: "duplicate", seq, conflict: true });
    expect(await worker.read.events.get(seq)).toMatchObject({ duplicates: 7, conflicts: 4, status: "sent", body: event.body });
  }
  expect(await worker.read.messages.find("w")).toMatchObject([{ status: "sent" }]);
  expect(await unplanned("again")).toEqual([]);
  await expectBalanced(worker);
});

test("a receiver plans events without a message at once, also while others are unplanned", async () => {
  const [receiver, worker] = [open("at-once", { role: "receive" }), open("at-once")];
  const truncated = { truncated: true, id: null, size: 300_000 };
  expect(await receiver.accept(anEvent({ wamid: "w" }))).toEqual({ result: "accepted", seq: 1, disposition: "accepted", due: [] });
  expect(await receiver.accept(anEvent({ runId: "r" }))).toMatchObject({ disposition: "routed", due: [{ route: "all" }, {}] });
  expect(await receiver.accept(anEvent({ event: "contact.created" }))).toMatchObject({ disposition: "routed" });
  expect(await receiver.accept(anEvent({ data: truncated }))).toMatchObject({
    disposition: "routed",
    due: [{ route: "all", event: 4 }],
  });
  expect(await receiver.waitingAccounts()).toEqual(["main"]);
  expect(await receiver.accept(anEvent({ event: "automation.requested" }), "proxy:flows")).toMatchObject({ disposition: "routed" });
  // What was cut short, and says all the same which message it is about, is about that message.
  expect(await receiver.accept(anEvent({ wamid: "w", data: truncated }))).toMatchObject({ seq: 6, disposition: "accepted" });
  expect(await unplanned("at-once")).toEqual(["1", "6"]);
  await expectBalanced(receiver);
  expect(await planAll(worker)).toMatchObject([
    { seq: 1, disposition: "routed" },
    { seq: 6, disposition: "routed" },
  ]);
  expect((await worker.read.events.get(6))?.hydration).toBeNull();
  await expectBalanced(worker);
});

test("a process that plans at once only accepts while others are unplanned, and notifies once for the first", async () => {
  told.length = 0;
  const [receiver, both] = [open("behind", { role: "receive" }), open("behind")];
  expect(await both.accept(anEvent({ wamid: "w", status: "sent" }))).toMatchObject({ seq: 1, disposition: "routed" });
  expect(told).toEqual([]);
  await receiver.accept(anEvent({ wamid: "w", status: "delivered" }));
  await receiver.accept(anEvent({ wamid: "v" }));
  expect(told).toEqual(["behind"]);
  expect(await both.accept(anEvent({ wamid: "w", status: "read" }))).toEqual({
    result: "accepted",
    seq: 4,
    disposition: "accepted",
    due: [],
  });
  expect(await both.accept(anEvent({ wamid: "new" }))).toMatchObject({ seq: 5, disposition: "accepted" });
  expect(told).toEqual(["behind"]);
  expect((await planAll(both)).map(({ seq }) => seq)).toEqual([2, 3, 4, 5]);
  expect(await both.accept(anEvent({ wamid: "w", status: "read" }))).toMatchObject({ seq: 6, disposition: "routed" });
  expect(await both.due("all", start, 9)).toEqual([1, 3, 5]);
  expect(await both.read.messages.find("w")).toMatchObject([{ status: "read" }]);
  await receiver.accept(anEvent({ wamid: "w" }));
  expect(told).toEqual(["behind", "behind"]);
  await expectBalanced(both);
});

test("a batch of both kinds of events keeps their order, and notifies once", async () => {
  told.length = 0;
  const both = open("batch");
  const receiver = open("batch", { role: "receive" });
  await receiver.accept(anEvent({ wamid: "w", status: "sent" }));
  const statuses = ["delivered", "read", "delivered", "failed"];
  await Promise.all(statuses.map((status) => both.accept(anEvent({ wamid: "w", status }))));
  await Promise.all(statuses.map((status) => receiver.accept(anEvent({ wamid: "w", status }))));
  expect(told).toEqual(["batch"]);
  expect(await unplanned("batch")).toEqual(["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
  await planAll(both);
  expect(await both.read.messages.find("w")).toMatchObject([{ status: "read" }]);
  expect((await both.read.events.list({ wamid: "w", limit: 9 })).events.map(({ transition }) => transition)).toEqual(
    [true, true, true, false, false, false, false, false, false].reverse(),
  );
  await expectBalanced(both);
});

/** What the relay learns when it asks. */
const news = (wamid: string, status: string) =>
  polledEvent({
    account: "main",
    source: "main",
    fields: fieldsSchema.parse({}),
    origin: "hydrate",
    messageId: `id-of-${wamid}`,
    wamid: wamid as Wamid,
    status,
    errorCode: null,
    at: start + 5,
  });

test("an event made from polled state is unplanned like others, and counts at once for its truncated event", async () => {
  const [receiver, worker] = [open("learned", { role: "receive" }), open("learned")];
  await worker.register([{ account: "main", wamid: "w", id: "id-of-w" }], start);
  const { seq: any } = await receiver.accept(anEvent({ data: { truncated: true, id: null, size: 9 } }));
  const { seq: named } = await receiver.accept(anEvent({ data: { truncated: true, id: "id-of-w", size: 9 } }));
  await receiver.accept(anEvent({ wamid: "other" }));
  const pass = await worker.beginPass("main", start + 1);
  if (pass === null) throw new Error("nothing waits");
  expect(await worker.accept(news("w", "delivered"))).toMatchObject({ seq: 4, disposition: "accepted" });
  expect(await worker.accept(news("w", "delivered"))).toMatchObject({ result: "duplicate", seq: 4 });
  await expectBalanced(worker);
  expect(await worker.settleTarget(pass, "id-of-w", "w", start + 9)).toEqual({ events: 1, due: [] });
  const end = { reason: null, unknown: 0, receivedBy: start + 9 };
  expect(await worker.settleCovered(pass, end, start + 9, 10)).toEqual({ events: 1, due: [] });
  for (const seq of [any, named]) {
    expect(await worker.read.events.get(seq)).toMatchObject({
      verdicts: [
        ["all", "deliver"],
        ["big", "skip", "where: bytes $gt"],
        ["holding", "skip", "hydrated"],
      ],
      hydration: { state: "done", foundCount: 1, found: [{ seq: 4, wamid: "w", status: "delivered" }] },
    });
  }
  expect((await planAll(worker)).map(({ seq, disposition }) => [seq, disposition])).toEqual([
    [3, "routed"],
    [4, "routed"],
  ]);
  expect(await worker.read.messages.find("w")).toMatchObject([{ status: "delivered" }]);
  expect(await worker.read.events.get(named)).toMatchObject({ hydration: { foundCount: 1, found: [{ seq: 4 }] } });
  expect(await worker.read.stories.eventsOf("message", "main", "w", 0, 9)).toEqual([4]);
  await expectBalanced(worker);
});

test("an unplanned event of a message registered meanwhile is planned as tracked, after its parked events", async () => {
  const rules = rulesFor([{ name: "ours", match: { tracked: true } }]);
  const [receiver, worker] = [open("registered", { role: "receive", rules }), open("registered", { rules })];
  await receiver.accept(anEvent({ wamid: "w", status: "sent" }));
  expect(await planAll(worker)).toMatchObject([{ disposition: "parked", due: [] }]);
  await receiver.accept(anEvent({ wamid: "w", status: "read" }));
  expect(await worker.register([{ account: "main", wamid: "w" }], start)).toMatchObject({ due: [{ event: 1 }] });
  expect(await planAll(worker)).toMatchObject([{ seq: 2, disposition: "routed", due: [] }]);
  expect(await worker.due("ours", start, 9)).toEqual([1]);
  expect((await worker.read.deliveries.list({ limit: 9 })).map(({ event, state }) => [event, state])).toEqual([
    [2, "held"],
    [1, "waiting"],
  ]);
  await expectBalanced(worker);
});

const statuses = ["sent", "delivered", "read", "failed"];

/** A thousand events about a few messages, each after the other ones; gives their seqs by message. */
async function aBacklog(prefix: string): Promise<ReadonlyMap<string, number[]>> {
  const receiver = open(prefix, { role: "receive" });
  const events = Array.from({ length: 1_000 }, (_, n) => anEvent({ wamid: `w${n % 20}`, status: statuses[((n / 20) % 4) | 0] as string }));
  const outcomes = await Promise.all(events.map((event) => receiver.accept(event)));
  expect(outcomes.map(({ seq }) => seq)).toEqual(events.map((_, n) => n + 1));
  return Map.groupBy(
    outcomes.map(({ seq }) => seq),
    (seq) => `w${(seq - 1) % 20}`,
  );
}

test("plans a long backlog in portions, and tries no event twice", async () => {
  const byMessage = await aBacklog("long");
  const worker = open("long");
  const planned: Planned[] = [];
  let runs = 0;
  for (; planned.length < 1_000; runs += 1) planned.push(...(await worker.planning.planSome(start)).planned);
  expect(runs).toBe(3);
  expect(planned.map(({ seq }) => seq)).toEqual(Array.from({ length: 1_000 }, (_, n) => n + 1));
  for (const [wamid, seqs] of byMessage) {
    expect(await worker.read.stories.eventsOf("message", "main", wamid, 0, 100)).toEqual(seqs);
    expect(await worker.read.messages.find(wamid)).toMatchObject([{ status: "read" }]);
  }
  // The first of each message is due, the others are held behind it.
  expect(await worker.due("all", start, 100)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
  await expectBalanced(worker);
});

test("reads large bodies in portions of a few MiB", async () => {
  const receiver = open("bytes", { role: "receive" });
  const padding = "x".repeat(900_000);
  for (let n = 0; n < 12; n++) await receiver.accept(anEvent({ wamid: "w", data: { padding: n === 6 ? padding.repeat(8) : padding } }));
  const sizes: number[] = [];
  const link = {
    async run<T>(command: (redis: ReturnType<typeof client>) => Promise<T>): Promise<T> {
      const answer = await command(client());
      if (Array.isArray(answer)) sizes.push(answer.join("").length);
      return answer;
    },
  };
  const worker = openRedisStore(link, "bytes", rulesFor(routes), { committed: () => {} });
  expect((await worker.planning.planSome(start)).planned.map(({ seq }) => seq)).toEqual(Array.from({ length: 12 }, (_, n) => n + 1));
  // One that is larger than that is read alone.
  const large = sizes.filter((size) => size > 100_000).map((size) => Math.round(size / 900_000));
  expect(large).toEqual([4, 2, 8, 4, 1]);
  await expectBalanced(worker);
  await worker.close();
});

test("three processes plan a backlog once and in order, although one dies", async () => {
  const byMessage = await aBacklog("three");
  const dead = Promise.withResolvers<void>();
  function openOne(last: number): OpenedStore {
    const own = client().duplicate();
    onTestFinished(() => own.disconnect());
    let count = 0;
    const link = {
      async run<T>(command: (redis: ReturnType<typeof client>) => Promise<T>): Promise<T> {
        count += 1;
        const isLast = count === last;
        if (count > last) return new Promise(() => {});
        const answer = await command(own);
        if (!isLast) return answer;
        dead.resolve();
        return new Promise(() => {});
      },
    };
    return openRedisStore(link, "three", rulesFor(routes), { committed: () => {} });
  }
  const told: Planned[] = [];
  async function work(store: OpenedStore): Promise<void> {
    while ((await store.planning.next()) !== null) told.push(...(await store.planning.planSome(start)).planned);
  }
  const [one, two, dying] = [openOne(Number.POSITIVE_INFINITY), openOne(Number.POSITIVE_INFINITY), openOne(12)];
  await Promise.all([work(one), work(two), Promise.race([work(dying), dead.promise])]);
  const seqs = told.map(({ seq }) => seq);
  expect(new Set(seqs).size).toBe(seqs.length);
  expect(await unplanned("three")).toEqual([]);
  const deliveries = await one.read.deliveries.list({ route: "all", limit: 2_000 });
  expect(deliveries.map(({ event }) => event).sort((a, b) => a - b)).toEqual(Array.from({ length: 1_000 }, (_, n) => n + 1));
  for (const [wamid, of] of byMessage) {
    expect(await one.read.stories.eventsOf("message", "main", wamid, 0, 100)).toEqual(of);
    expect(await one.read.messages.find(wamid)).toMatchObject([{ status: "read" }]);
  }
  expect(await one.due("all", start, 100)).toEqual(Array.from({ length: 20 }, (_, n) => n + 1));
  await expectBalanced(one);
  await Promise.all([one.close(), two.close()]);
});

test("an event that is planned after its parking time expires in order, and is not parked too long", async () => {
  const rules = rulesFor([{ name: "ours", match: { tracked: true } }], { parkFor: 60_000 });
  const [receiver, worker] = [open("late", { role: "receive", rules }), open("late", { rules })];
  const late = start + 3_600_000;
  await receiver.accept(anEvent({ wamid: "w", status: "sent" }));
  expect(await planAll(worker, late)).toMatchObject([{ disposition: "parked" }]);
  await expectBalanced(worker, late);
  expect(await worker.expireParked(late - 1, 9)).toBe(0);
  expect(await worker.expireParked(late, 9)).toBe(1);
  expect(await worker.read.events.get(1)).toMatchObject({ disposition: "ignored" });
  await expectBalanced(worker, late);
});
