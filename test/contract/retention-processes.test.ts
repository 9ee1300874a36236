import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { placesOfEvent } from "../../src/store/redis/keys.ts";
import { type Redis, startRedis } from "../setup/redis.ts";
import type { OpenedStore } from "./redis-queue.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";
import { openProcesses } from "./three-processes.ts";

const day = 86_400_000;
const keep = { events: 30 * day, ignored: day, deliveries: 7 * day, messages: 180 * day, history: 400 * day };
const rules = rulesFor([
  { name: "all", match: { events: ["message.*"], statuses: ["sent", "failed"] } },
  { name: "ours", match: { tracked: true } },
  { name: "holding", match: { events: ["message.held"] }, order: "none", truncated: "hold" },
]);
let redis: Redis;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

interface Sum {
  events: number;
  deliveries: number;
  messages: number;
}

async function purgeAll(store: OpenedStore, now: number, limit = 7): Promise<Sum> {
  const sum = { events: 0, deliveries: 0, messages: 0 };
  for (let steps = 0; steps < 2_000; steps++) {
    const purged = await store.purge(now, keep, limit);
    sum.events += purged.events;
    sum.deliveries += purged.deliveries;
    sum.messages += purged.messages;
    if (purged.done) return sum;
  }
  throw new Error("retention never came to an end");
}

async function attempt(store: OpenedStore, route: string, event: number, at: number, to: "delivered" | "dead"): Promise<void> {
  const found = await store.load(route, event);
  if (found === null) return;
  const result = { kind: "answered", status: 200, retryAfterMs: null } as const;
  const settled = to === "delivered" ? ({ to } as const) : ({ to, reason: "enough" } as const);
  await store.settle({ route, event, attempt: { number: found.attempts + 1, at, tookMs: 1, result, response: null }, settled, at });
}

describe("retention of several processes", () => {
  test("concurrent purges count each row once, and remove empty keys", async () => {
    const { stores, client, key } = openProcesses(redis, rules);
    const [one, two, three] = stores;
    const registered = Array.from({ length: 20 }, (_, n) => ({
      account: "main",
      wamid: `w${n}`,
      id: `id ${n}`,
      reference: `order ${n % 3}`,
    }));
    await one.register(registered.slice(0, 10), start);
    const seqs: number[] = [];
    for (let n = 0; n < 60; n++) {
      const about =
        n % 3 === 0 ? { runId: `r${n % 7}` } : { wamid: `w${n % 20}`, status: n % 2 === 0 ? "sent" : "failed", errorCode: "131026" };
      seqs.push((await stores[(n % 3) as 0].accept(anEvent(about))).seq);
    }
    const again = anEvent({ wamid: "again" });
    await Promise.all([one.accept(again), two.accept(again), three.accept({ ...again, body: Buffer.from("{}") })]);
    // Some late: the others are ignored when their time is up.
    await two.register(registered.slice(10, 15), start);
    await three.expireParked(start + day, 1_000);
    for (let n = 0; n < 5; n++) await one.accept(anEvent({ event: "message.held", data: { truncated: true, id: `t${n}`, size: 9 } }));
    const pass = await two.beginPass("main", start);
    if (pass === null) throw new Error("nothing waits");
    await two.settleCovered(pass, { reason: "too-long", unknown: 1, receivedBy: Number.MAX_SAFE_INTEGER }, start, 100);
    await two.endPass(pass, start);
    const { envelope: _, subject: __, ...bytes } = anEvent();
    await three.quarantine({ ...bytes, error: "no" });
    await one.claimPolls({ account: "main", now: start + day, dueBy: start + day, after: 0, limit: 3, leaseMs: 60_000 });
    for (;;) {
      const due = await Promise.all(
        ["all", "ours", "holding"].map(async (route) => ({ route, events: await one.due(route, start + day, 100) })),
      );
      if (due.every(({ events }) => events.length === 0)) break;
      for (const { route, events } of due)
        for (const event of events) await attempt(two, route, event, start, event % 4 === 0 ? "dead" : "delivered");
    }
    const last = await one.accept(anEvent({ id: "last", event: "contact.created", receivedAt: start + 300 * day, secret: null }));
    const bounds = await one.read.events.bounds();
    const stored = (bounds?.newest ?? 0) - (bounds?.oldest ?? 0);

    const sums = await Promise.all(stores.map((store) => purgeAll(store, start + 300 * day)));
    const sum = (what: keyof Sum) => sums.reduce((all, each) => all + each[what], 0);
    expect(sum("events")).toBe(stored);
    // The registered ones, those seen beside them, and the runs.
    expect(sum("messages")).toBe(20 + 1 + 7);
    expect(await one.read.events.bounds()).toEqual({ oldest: last.seq, newest: last.seq });

    const left = (await client.keys(key("*"))).map((name) => name.slice(key("").length)).sort();
    // What is told apart by names of the settings, and the greatest seq.
    const few = ["accounts", "hydrating", "numbers", "plans", "retention", "routes", "seq", "usage"];
    const ofLast = [`e:${last.seq}`, "id:main:last", `live:${Math.floor(last.seq / 65_536)}`];
    // Hours of the history have a retention of their own; of the minutes only that of the last event is left.
    const minutesLeft = [`hm:events:${Math.floor((start + 300 * day) / 60_000)}`, "minutes:events"];
    const isHistory = (name: string) => /^(hh|hours|codes):/.test(name) || minutesLeft.includes(name);
    expect(left.filter((name) => !few.includes(name) && !isHistory(name))).toEqual([...ofLast, ...placesOfEvent("last")]);
  });

  test("an event that is purged during other operations is complete or deleted", async () => {
    const course = fc.array(
      fc.tuple(fc.nat(2), fc.constantFrom("purge", "purge", "retry", "replay", "again", "register", "expire", "plan", "plan"), fc.nat(5)),
      {
        minLength: 3,
        maxLength: 12,
      },
    );
    await fc.assert(
      fc.asyncProperty(course, async (steps) => {
        const { stores, client, key, end } = openProcesses(redis, rules);
        const [one] = stores;
        const events = Array.from({ length: 6 }, (_, n) => anEvent({ wamid: `w${n % 2}`, status: n < 3 ? "sent" : "read" }));
        const seqs: number[] = [];
        for (const event of events) seqs.push((await one.accept(event)).seq);
        for (const seq of seqs) await attempt(one, "all", seq, start, "dead");
        // Some are late for half of them.
        await one.expireParked(start + day, 1_000);
        await one.register([{ account: "main", wamid: "w0" }], start + day);
        await one.accept(anEvent({ event: "contact.created", receivedAt: start + 40 * day }));
        const now = start + 40 * day;
        let accepted = 0;
        let gone = 0;
        let replayed = 0;
        await Promise.all(
          steps.map(async ([process, what, which]) => {
            const store = stores[process as 0];
            const seq = seqs[which] as number;
            if (what === "purge") {
              const purged = await purgeAll(store, now, 2);
              gone += purged.events;
            } else if (what === "retry") await store.retry(seq, "all", now);
            else if (what === "replay") {
              const done = await store.replay([{ event: seq, route: "all" }], ["dead"], now);
              replayed += done.replayed;
            } else if (what === "register") await store.register([{ account: "main", wamid: `w${which % 2}` }], now);
            else if (what === "expire") await store.expireParked(now, 3);
            else if (what === "plan") await store.backfill(seqs.slice(3), { disposition: "ignored" }, now);
            else {
              const outcome = await store.accept(events[which] as (typeof events)[number]);
              if (outcome.result === "accepted") accepted += 1;
              else expect(seqs).toContain(outcome.seq);
            }
          }),
        );
        const left = (await Promise.all(seqs.map((seq) => one.read.events.get(seq)))).filter((event) => event !== null);
        expect(gone).toBe(seqs.length - left.length);
        // An id that is forgotten is new again, and none other is.
        expect(accepted).toBeLessThanOrEqual(gone);
        expect(replayed).toBeLessThanOrEqual(3 + gone);
        const { events: all } = await one.read.events.list({ after: 0, before: Number.MAX_SAFE_INTEGER, limit: 100 } as never);
        for (const event of all) expect((await one.read.events.get(event.seq))?.body.length).toBe(event.size);
        // What was planned again is owed, and keeps its event.
        for (const event of left) {
          const verdicts = new Map(event.verdicts.map(([route, verdict]) => [route, verdict]));
          if (verdicts.get("ours") === "deliver") expect(await client.hget(key(`d:${event.seq}:ours`), "s")).toMatch(/[01]/);
        }
        // Nothing is left of those that are gone, in no list.
        const known = new Set(all.map(({ seq }) => seq));
        for (const name of await client.keys(key("d:*"))) expect(known).toContain(Number(name.split(":")[2]));
        for (const list of ["due:all", "held:all", "dead:all", "ignored", "parked", "due:ours", "held:ours"]) {
          for (const member of await client.zrange(key(list), "0", "-1")) expect(known).toContain(Number(member));
        }
        for (const name of await client.keys(key("es:*"))) {
          for (const member of await client.zrange(name, "0", "-1")) expect(known).toContain(Number(member));
          expect(await client.exists(name.replace("es:", ""))).toBe(1);
        }
        end();
      }),
      { numRuns: 30 },
    );
  });

  test("concurrent replays send a delivery once more, as does a backfill", async () => {
    const plain = rulesFor([{ name: "all" }, { name: "ours", match: { tracked: true } }], { unknown: "ignore" });
    const { stores } = openProcesses(redis, plain);
    const [one, two, three] = stores;
    const seqs: number[] = [];
    for (let n = 0; n < 50; n++) seqs.push((await one.accept(anEvent({ wamid: `w${n % 5}` }))).seq);
    for (const seq of seqs) await attempt(one, "all", seq, start, "dead");
    const found = seqs.map((event) => ({ event, route: "all" }));
    const done = await Promise.all([one, two, three].map((store) => store.replay(found, ["dead"], start + 1)));
    expect(done.reduce((sum, { replayed }) => sum + replayed, 0)).toBe(50);
    expect(done.flatMap(({ due }) => due)).toHaveLength(5);

    const unknown = rulesFor([{ name: "ours", match: { tracked: true } }], { unknown: "ignore" });
    const late = openProcesses(redis, unknown).stores;
    const ignored: number[] = [];
    for (let n = 0; n < 50; n++) ignored.push((await late[0].accept(anEvent({ wamid: `w${n % 5}` }))).seq);
    await late[1].register(
      Array.from({ length: 5 }, (_, n) => ({ account: "main", wamid: `w${n}` })),
      start,
    );
    const filter = { disposition: "ignored" } as const;
    const looked = await late[2].findBackfill(filter, { since: start, event: 0, route: 0 }, 100);
    expect(looked.found.map(({ event }) => event)).toEqual(ignored);
    const planned = await Promise.all(late.map((store) => store.backfill(ignored, filter, start + 1)));
    expect(planned.reduce((sum, { replayed }) => sum + replayed, 0)).toBe(50);
    expect(planned.flatMap(({ due }) => due).map(({ event }) => event)).toEqual(ignored.slice(0, 5));
    expect((await late[0].read.events.get(ignored[0] as number))?.disposition).toBe("routed");
  });
});
