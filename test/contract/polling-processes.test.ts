import fc from "fast-check";
import { Redis as Client } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fieldsSchema, polledEvent } from "../../src/model/event.ts";
import type { Wamid } from "../../src/model/ids.ts";
import type { ClaimedPoll } from "../../src/model/poll.ts";
import { createRedisStore, type RedisStore } from "../../src/store/redis/open.ts";
import type { DueDelivery } from "../../src/store/rules.ts";
import { type Redis, startRedis } from "../setup/redis.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const minute = 60_000;
const leaseMs = 10 * minute;
const data = { truncated: true, id: null as string | null, size: 300_000 };
const all = { reason: null, unknown: 0, receivedBy: Number.MAX_SAFE_INTEGER };
const rules = rulesFor([{ name: "holding", truncated: "hold" }]);
let redis: Redis;
let clients: readonly [Client, Client, Client];
let made = 0;

beforeAll(async () => {
  redis = await startRedis();
  clients = [new Client(redis.url), new Client(redis.url), new Client(redis.url)];
});
afterAll(async () => {
  for (const client of clients) client.disconnect();
  await redis.stop();
});

/** Three processes of a relay of its own, each with its own connection; `another` takes the place of one that was killed. */
function open() {
  made += 1;
  const prefix = `asking-${made}`;
  const openOne = (client: Client): RedisStore =>
    createRedisStore({ run: (command) => command(client) }, prefix, rules, { committed: () => {} });
  const stores = [openOne(clients[0]), openOne(clients[1]), openOne(clients[2])] as const;
  return { stores, another: () => openOne(clients[0]), key: (name: string) => `{${prefix}}:${name}` };
}

const claimOf = (now: number, limit = 100) => ({ account: "main", now, dueBy: now, after: minute, limit, leaseMs });

function register(store: RedisStore, wamids: readonly string[], at = start) {
  return store.register(
    wamids.map((wamid) => ({ account: "main", wamid, id: `id-of-${wamid}` })),
    at,
  );
}

async function truncated(store: RedisStore, receivedAt = start, id: string | null = null): Promise<number> {
  const { seq } = await store.accept(anEvent({ receivedAt, data: { ...data, id } }));
  return seq;
}

function learn(store: RedisStore, wamid: string, status: string) {
  const learned = { account: "main", source: "main", fields: fieldsSchema.parse({}), origin: "hydrate", errorCode: null } as const;
  return store.accept(polledEvent({ ...learned, messageId: `id-of-${wamid}`, wamid: wamid as Wamid, status, at: start }));
}

async function passOf(store: RedisStore, now = start) {
  const pass = await store.beginPass("main", now);
  if (pass === null) throw new Error("nothing waits");
  return pass;
}

describe("polling by several processes", () => {
  test("one process claims a message at a time, and an expired claim settles nothing of another's", async () => {
    const { stores } = open();
    const wamids = Array.from({ length: 200 }, (_, n) => `w${n}`);
    await register(stores[0], wamids);
    const claims = await Promise.all(
      stores.flatMap((store) => [store.claimPolls(claimOf(start + minute, 30)), store.claimPolls(claimOf(start + minute, 30))]),
    );
    const claimed = claims.flat().map(({ wamid }) => wamid);
    expect([claimed.length, new Set(claimed).size]).toEqual([180, 180]);
    const late = start + 2 * minute + leaseMs;
    const anew = await stores[1].claimPolls(claimOf(late, 1000));
    expect(anew).toHaveLength(200);
    await stores[0].settlePolls(claims.flat().map(({ message, until }) => ({ message, until, end: "over" })));
    expect(await stores[2].claimPolls(claimOf(late + minute + leaseMs, 1000))).toHaveLength(200);
  });

  test("sums the calls of all processes", async () => {
    const { stores } = open();
    await Promise.all(stores.map((store) => store.addServiceCalls([{ account: "main", day: start, polls: 1, others: 10 }])));
    expect(await stores[0].serviceCalls("main", start)).toEqual([{ day: start, polls: 3, others: 30 }]);
  });

  test("one process holds a lease until it expires or is released", async () => {
    const { stores, key } = open();
    const taken = await Promise.all(stores.map((store) => store.holdLease("purging", minute)));
    expect(taken.filter(Boolean)).toHaveLength(1);
    const holder = stores[taken.indexOf(true)] as RedisStore;
    const [other, third] = stores.filter((store) => store !== holder) as [RedisStore, RedisStore];
    expect(await holder.holdLease("purging", minute)).toBe(true);
    expect(await other.holdLease("purging", minute)).toBe(false);
    expect(await other.holdLease("something else", minute)).toBe(true);
    await holder.close();
    expect(await other.holdLease("purging", minute)).toBe(true);
    // As when its time is up, and another was faster: what is let go then is not this one's.
    await clients[0].set(key("lease:purging"), "the fourth");
    await other.close();
    expect(await third.holdLease("purging", minute)).toBe(false);
  });

  test("a pass continues where a killed process stopped", async () => {
    const { stores, another } = open();
    const seqs = [];
    for (const store of stores) seqs.push(await truncated(store));
    const pass = await passOf(stores[0], start + 5);
    await stores[0].noteReads(pass, 4, []);
    expect(await passOf(stores[1], start + 9)).toEqual({ ...pass, polled: 4 });
    const next = another();
    expect(await passOf(next, start + 9)).toMatchObject({ seq: pass.seq, polled: 4, covered: { events: 3 } });
    // Two who did not hear of one another settle it at once.
    const settled = await Promise.all([stores[1], next].map((store) => store.settleCovered(pass, all, start + 9, 100)));
    expect(settled.reduce((sum, { events }) => sum + events, 0)).toBe(3);
    expect(settled.flatMap(({ due }) => due.map(({ event }) => event)).toSorted((a, b) => a - b)).toEqual(seqs);
    for (const seq of seqs) expect(await next.read.events.get(seq)).toMatchObject({ disposition: "routed", hydration: { polled: 4 } });
  });

  test("an ended pass settles nothing of the next one", async () => {
    const { stores } = open();
    const [one, other] = stores;
    await truncated(one, start, "id-of-w");
    const old = await passOf(one);
    await other.settleCovered(await passOf(other), all, start, 10);
    await other.endPass(old, start);
    const seq = await truncated(one, start + 1, "id-of-w");
    const next = await passOf(other, start + 1);
    expect(await one.covered(old)).toBeNull();
    expect(await one.settleCovered(old, all, start + 2, 10)).toEqual({ events: 0, due: [] });
    expect(await one.settleTarget(old, "id-of-w", "w", start + 2)).toEqual({ events: 0, due: [] });
    await one.noteReads(old, 7, []);
    await one.endPass(old, start + 2);
    expect(await passOf(one, start + 3)).toEqual(next);
    expect(await one.targets(next, 10)).toEqual(["id-of-w"]);
    expect((await other.settleTarget(next, "id-of-w", "w", start + 3)).due).toMatchObject([{ event: seq }]);
    expect(await one.waitingAccounts()).toEqual([]);
  });

  test("accepts any text as the id of a truncated event", async () => {
    const { stores } = open();
    const ids = ['a"b', 'a"', "a", "a1", "@seq@", "é😀\u0000\u001f\\", "]", "\ud800", '"'];
    const byId = new Map<string, number>();
    for (const id of ids) byId.set(id, await truncated(stores[0], start, id));
    const pass = await passOf(stores[1]);
    expect((await stores[1].targets(pass, 100)).toSorted()).toEqual(ids.toSorted());
    for (const id of ids) {
      const { due } = await stores[2].settleTarget(pass, id, "w", start);
      expect(due.map(({ event }) => event)).toEqual([byId.get(id)]);
    }
  });

  test("keeps both a status and a read of the same message at the same time", async () => {
    const { stores } = open();
    await register(stores[0], ["w"]);
    await truncated(stores[0]);
    const pass = await passOf(stores[0]);
    const [tracked] = await stores[0].trackedMessages("main", {
      withId: true,
      before: { registeredAt: start, message: null },
      from: 0,
      limit: 1,
    });
    const message = tracked?.message ?? "";
    await Promise.all([
      stores[0].noteReads(pass, 1, [{ message, at: start + 1 }]),
      ...["pending", "sent", "delivered"].map((status) => stores[1].accept(anEvent({ wamid: "w", status }))),
      stores[2].noteReads(pass, 1, [{ message, at: start + 1 }]),
    ]);
    const query = { withId: true, before: { registeredAt: start, message: null }, from: 0, limit: 1 };
    expect(await stores[2].trackedMessages("main", query)).toMatchObject([{ status: "delivered", readAt: start + 1 }]);
    expect(await stores[2].beginPass("main", start)).toMatchObject({ polled: 2 });
  });

  test("a run that ends during its registration is no candidate, in either order", async () => {
    const { stores } = open();
    const [one, other, third] = stores;
    const runIds = Array.from({ length: 10 }, (_, n) => `r${n}`);
    const key = (runId: string) => ({ account: "main", kind: "run", key: `order-${runId}` }) as const;
    for (const runId of runIds) await one.beginSend(key(runId), { fingerprint: "f", resend: 0, about: "", at: start });
    await Promise.all(
      runIds.flatMap((runId) => [
        one.settleSend(key(runId), {
          end: "done",
          at: start,
          answer: {},
          sent: { type: "run", runId, reference: `order-${runId}`, metadata: undefined },
        }),
        runId === "r5" ? null : other.accept(anEvent({ runId })),
      ]),
    );
    const outcome = await third.accept(anEvent({ event: "automation.completed", data }));
    expect((await one.read.events.get(outcome.seq))?.hydration).toMatchObject({
      candidates: [{ runId: "r5", reference: "order-r5" }],
      unknown: 1,
    });
  });
});

type Step = readonly [what: "accept" | "learn" | "purge" | "end" | "die" | "target", process: number, detail: number];
const step: fc.Arbitrary<Step> = fc.tuple(
  fc.constantFrom("accept", "accept", "learn", "purge", "end", "die", "target"),
  fc.nat({ max: 2 }),
  fc.nat({ max: 5 }),
);

test("concurrent processes settle each truncated event once, and each holding route gets it once or filters it with a reason", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(step, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 12 }), async (rounds) => {
      const { stores, another } = open();
      const processes: RedisStore[] = [...stores];
      const events: number[] = [];
      const due: DueDelivery[] = [];
      let settled = 0;
      let now = start;
      let news = 0;

      function count(done: { readonly events: number; readonly due: readonly DueDelivery[] }): void {
        settled += done.events;
        due.push(...done.due);
      }

      async function run([what, process, detail]: Step): Promise<void> {
        const store = processes[process] as RedisStore;
        if (what === "accept") events.push(await truncated(store, now, detail > 3 ? `id-${detail}` : null));
        if (what === "learn") {
          news += 1;
          await learn(store, `w${news % 5}`, ["sent", "delivered", "read"][detail % 3] as string);
        }
        if (what === "die") processes[process] = another();
        if (what === "accept" || what === "learn" || what === "die") return;
        const pass = await store.beginPass("main", now);
        if (pass === null) return;
        if (what === "target") {
          for (const target of await store.targets(pass, 10))
            count(await store.settleTarget(pass, target, detail % 2 === 0 ? "w1" : null, now));
          return;
        }
        await store.noteReads(pass, 1, []);
        count(await store.settleCovered(pass, { ...all, unknown: detail % 2 }, now, what === "end" && detail > 0 ? 100 : detail));
        if (what === "end") await store.endPass(pass, now);
      }

      for (const round of rounds) {
        now += 1;
        await Promise.all(round.map(run));
      }
      for (let pass = await stores[0].beginPass("main", now); pass !== null; pass = await stores[0].beginPass("main", now)) {
        count(await stores[0].settleCovered(pass, all, now, 100));
        await stores[0].endPass(pass, now);
      }

      expect(settled).toBe(events.length);
      expect(await stores[0].waitingAccounts()).toEqual([]);
      const views = await Promise.all(events.map((seq) => stores[0].read.events.get(seq)));
      for (const view of views) {
        expect(view?.hydration?.state).toBe("done");
        expect(view?.hydration?.found).toHaveLength(view?.hydration?.foundCount ?? -1);
        const isAccountedFor = view?.hydration?.unknown === 0 && (view.hydration.foundCount ?? 0) > 0;
        expect(view?.disposition).toBe(isAccountedFor ? "filtered" : "routed");
      }
      const routed = views.flatMap((view) => (view?.disposition === "routed" ? [view.seq] : []));
      expect(due.map(({ event }) => event).toSorted((a, b) => a - b)).toEqual(routed.toSorted((a, b) => a - b));
    }),
    { numRuns: 40 },
  );
});

test("concurrent processes never poll the same message", async () => {
  const action = fc.tuple(fc.constantFrom("claim", "claim", "settle", "wait"), fc.nat({ max: 2 }), fc.nat({ max: 40 }));
  await fc.assert(
    fc.asyncProperty(fc.array(fc.array(action, { minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 15 }), async (rounds) => {
      const { stores } = open();
      const wamids = Array.from({ length: 30 }, (_, n) => `w${n}`);
      await register(stores[0], wamids);
      let now = start + minute;
      /** When a message may be claimed, by what is known of it. */
      const free = new Map(wamids.map((wamid) => [wamid, now]));
      const freeAt = (until: number, rank: number) => (rank === 0 ? until + minute : until);
      const held: ClaimedPoll[][] = [[], [], []];
      for (const round of rounds) {
        const before = new Map(free);
        const claimed: ClaimedPoll[] = [];
        let later = 1;
        await Promise.all(
          round.map(async ([what, process, detail]) => {
            const store = stores[process] as RedisStore;
            if (what === "wait") later += detail * minute;
            if (what === "settle") {
              const some = held[process]?.splice(0, detail) ?? [];
              const [nextAt, rank] = [now + (1 + (detail % 7)) * minute, detail % 32];
              await store.settlePolls(
                some.map(({ message, until, polls }) => ({
                  message,
                  until,
                  end: "again",
                  nextAt,
                  rank,
                  polls: polls + 1,
                  failures: 0,
                  misses: 0,
                  polledAt: now,
                })),
              );
              // One that ran out is another's, or will be.
              for (const ask of some) if (before.get(ask.wamid) === freeAt(ask.until, ask.rank)) free.set(ask.wamid, freeAt(nextAt, rank));
            }
            if (what !== "claim") return;
            const polls = await store.claimPolls(claimOf(now, detail));
            claimed.push(...polls);
            held[process]?.push(...polls);
          }),
        );
        expect(new Set(claimed.map(({ wamid }) => wamid)).size).toBe(claimed.length);
        for (const { wamid, until, rank } of claimed) {
          expect(before.get(wamid)).toBeLessThanOrEqual(now);
          free.set(wamid, freeAt(until, rank));
        }
        now += later;
      }
      const rest = await stores[0].claimPolls(claimOf(now, 100));
      const due = wamids.filter((wamid) => (free.get(wamid) ?? 0) <= now);
      expect(rest.map(({ wamid }) => wamid).toSorted()).toEqual(due.toSorted());
    }),
    { numRuns: 40 },
  );
});
