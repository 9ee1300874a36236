import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { until } from "../harness/until.ts";
import { type Redis, startRedis } from "../setup/redis.ts";
import type { OpenedStore } from "./redis-queue.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";
import { openProcesses } from "./three-processes.ts";

const parkFor = 60_000;
const rules = rulesFor([{ name: "ours", match: { tracked: true } }], { parkFor });
let redis: Redis;

beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

const message = { account: "main", wamid: "w" };

async function acceptBy(store: OpenedStore, parts: Parameters<typeof anEvent>[0]): Promise<number> {
  return (await store.accept(anEvent({ wamid: "w", ...parts }))).seq;
}

/** The deliveries in the order in which they go out, one after the other. */
async function drain(store: OpenedStore): Promise<number[]> {
  const order: number[] = [];
  let [next = null] = (await store.due("ours", start + 2 * parkFor, 10)) as (number | null)[];
  while (next !== null) {
    order.push(next);
    const attempt = {
      number: 1,
      at: start,
      tookMs: 1,
      result: { kind: "answered", status: 200, retryAfterMs: null },
      response: null,
    } as const;
    next = (await store.settle({ route: "ours", event: next, attempt, settled: { to: "delivered" }, at: start })).released;
  }
  return order;
}

describe("registration by several processes", () => {
  test("concurrent registration, expiry and acceptance settle each event once, and deliveries go out in order", async () => {
    const parked = fc.integer({ min: 0, max: 6 });
    const step = fc.constantFrom("register", "register", "expire", "accept");
    const steps = fc.array(fc.tuple(fc.nat(2), step), { minLength: 2, maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(parked, parked, steps, async (old, young, order) => {
        const { stores, client, key, end } = openProcesses(redis, rules);
        const all: number[] = [];
        for (let n = 0; n < old + young; n++) {
          all.push(await acceptBy(stores[(n % 3) as 0], { receivedAt: n < old ? start : start + parkFor }));
        }
        const now = start + parkFor;
        let created = 0;
        let ended = 0;
        let registrations = 0;
        await Promise.all(
          order.map(async ([process, what]) => {
            const store = stores[process as 0];
            if (what === "accept") all.push(await acceptBy(store, { receivedAt: now }));
            else if (what === "expire") {
              const count = await store.expireParked(now, 10);
              ended += count;
            } else {
              registrations += 1;
              const registered = await store.register([message], now);
              created += registered.created;
            }
          }),
        );
        expect(created).toBe(Math.min(1, registrations));
        expect(ended).toBeLessThanOrEqual(old);
        const fates = new Map<number, string>();
        for (const seq of all) {
          const event = await stores[0].read.events.get(seq);
          const [verdict] = event?.verdicts ?? [];
          fates.set(seq, verdict?.[1] ?? "none");
          expect(event?.disposition).toBe({ deliver: "routed", skip: "ignored", park: "parked" }[verdict?.[1] ?? "park"]);
          expect(await client.exists(key(`d:${seq}:ours`))).toBe(verdict?.[1] === "deliver" ? 1 : 0);
        }
        const left = all.filter((seq) => fates.get(seq) === "park").length;
        expect([...fates.values()].filter((fate) => fate === "skip")).toHaveLength(ended);
        // Registered: nothing stays parked, whenever it came.
        if (registrations > 0) expect(left).toBe(0);
        expect(await client.zcard(key("parked"))).toBe(left);
        expect(await client.zcard(key("pk:m:main:w"))).toBe(left);
        const owed = all.filter((seq) => fates.get(seq) === "deliver").sort((a, b) => a - b);
        expect(await drain(stores[1])).toEqual(owed);
        end();
      }),
      { numRuns: 40 },
    );
  });

  test("of two concurrent contradicting registrations one is rejected with its whole list", async () => {
    const { stores } = openProcesses(redis, rules);
    const told = (reference: string) => [
      { account: "main", wamid: `beside ${reference}` },
      { ...message, reference },
    ];
    const results = await Promise.allSettled([stores[0].register(told("a"), start), stores[1].register(told("b"), start)]);
    const won = results.findIndex(({ status }) => status === "fulfilled");
    expect(results[1 - won]).toMatchObject({ status: "rejected", reason: { code: "conflict" } });
    const reference = ["a", "b"][won] as string;
    const found = await stores[2].read.messages.list({ after: 0, before: Number.MAX_SAFE_INTEGER, limit: 10 });
    expect(found.map(({ wamid }) => wamid).sort()).toEqual([`beside ${reference}`, "w"]);
    expect(await stores[2].read.messages.find(reference)).toMatchObject([{ wamid: "w", reference }]);
  });

  test("creates each of thousands of messages once when two processes register them", async () => {
    const { stores } = openProcesses(redis, rules);
    const list = Array.from({ length: 1_000 }, (_, n) => ({ account: "main", wamid: `w${n}`, id: `id ${n}`, reference: "campaign" }));
    const [one, two] = await Promise.all([stores[0].registerEach(list, start), stores[1].registerEach([...list].reverse(), start)]);
    const created = [...one, ...two].filter(({ result }) => result === "created");
    expect(created).toHaveLength(1_000);
    expect([...one, ...two].filter(({ result }) => result === "conflict")).toEqual([]);
    expect(await stores[2].read.messages.find("id 999")).toMatchObject([{ wamid: "w999" }]);
    expect(await stores[2].read.messages.find("campaign")).toHaveLength(100);
  });
});

describe("sends by several processes", () => {
  const key = { account: "main", kind: "message", key: "k" } as const;
  const claim = (resend = 0) => ({ fingerprint: "f", resend, about: "+54…01", at: start });
  const done = (wamid: string) => {
    const sent = { type: "message", id: `id-${wamid}`, wamid, status: "pending", conversationId: "c" } as const;
    return { end: "done", at: start, answer: { wamid }, sent: { ...sent, reference: undefined, metadata: undefined } } as const;
  };

  test("of concurrent sends with one key one calls, and all get its state", async () => {
    const { stores } = openProcesses(redis, rules);
    const answers = await Promise.all(Array.from({ length: 30 }, (_, n) => stores[(n % 3) as 0].beginSend(key, claim())));
    expect(answers.filter((held) => held === null)).toHaveLength(1);
    expect(answers.filter((held) => held !== null && held.state === "calling" && held.attempts === 1)).toHaveLength(29);
  });

  test("other processes see a call in flight, and its end", async () => {
    const { stores } = openProcesses(redis, rules);
    expect(await stores[0].beginSend(key, claim())).toBeNull();
    expect(await stores[1].findSend(key)).toMatchObject({ state: "calling" });
    expect(await stores[1].beginSend(key, claim(1))).toMatchObject({ state: "calling" });
    expect(await stores[2].forgetSends(start + 1, 10)).toBe(0);
    await stores[0].settleSend(key, done("w"));
    expect(await stores[1].findSend(key)).toMatchObject({ state: "done", answer: { wamid: "w" } });
    expect(await stores[2].messageState("main", "w")).toMatchObject({ status: "pending" });
  });

  test("a killed call becomes unknown after its time, and only a resend sends again", async () => {
    const { stores, client, key: name } = openProcesses(redis, rules);
    await stores[0].beginSend(key, claim());
    const [caller = ""] = await client.keys(name("caller:*"));
    const left = await client.pttl(caller);
    expect(left).toBeGreaterThan(50_000);
    expect(left).toBeLessThanOrEqual(60_000);
    await client.pexpire(caller, 1);
    await until("the call is of unknown outcome", async () => (await stores[1].findSend(key))?.state === "unknown");
    expect(await stores[1].beginSend(key, claim())).toMatchObject({ state: "unknown", attempts: 1 });
    const again = await Promise.all([stores[1].beginSend(key, claim(1)), stores[2].beginSend(key, claim(1))]);
    expect(again.filter((held) => held === null)).toHaveLength(1);
  });

  test("the answer of a call presumed dead counts, unless another call followed", async () => {
    const { stores, client, key: name } = openProcesses(redis, rules);
    await stores[0].beginSend(key, claim());
    await client.del(await client.keys(name("caller:*")));
    expect(await stores[1].findSend(key)).toMatchObject({ state: "unknown" });
    await stores[0].settleSend(key, done("first"));
    expect(await stores[1].findSend(key)).toMatchObject({ state: "done", answer: { wamid: "first" } });

    const other = { ...key, key: "other" };
    await stores[0].beginSend(other, claim());
    await client.del(await client.keys(name("caller:*")));
    expect(await stores[1].beginSend(other, claim(1))).toBeNull();
    await stores[0].settleSend(other, done("second"));
    expect(await stores[2].findSend(other)).toMatchObject({ state: "calling", attempts: 2 });
    await stores[1].settleSend(other, { end: "unknown" });
    expect(await stores[2].findSend(other)).toMatchObject({ state: "unknown", attempts: 2 });
    // What it sent is registered all the same.
    expect(await stores[2].messageState("main", "second")).toMatchObject({ status: "pending" });
  });
});

test("concurrent moves leave a cursor at the furthest position, and the longest unused cursor is dropped", async () => {
  const { stores } = openProcesses(redis, rules);
  await Promise.all(Array.from({ length: 60 }, (_, n) => stores[(n % 3) as 0].moveCursor("laptop", (n * 37) % 61, start)));
  expect(await stores[0].findCursor("laptop")).toBe(60);
  expect(await stores[0].moveCursor("laptop", 5, start + 1)).toBe(60);
  expect(await stores[2].listCursors()).toEqual([{ name: "laptop", seq: 60, movedAt: start + 1 }]);
  await Promise.all(Array.from({ length: 1_000 }, (_, n) => stores[0].moveCursor(`name ${n}`, n, start + 2 + n)));
  await stores[1].moveCursor("one more", 1, start + 9_000);
  expect(await stores[1].findCursor("laptop")).toBeNull();
  expect(await stores[1].findCursor("name 999")).toBe(999);
  const listed = await stores[1].listCursors();
  expect(listed.slice(0, 2)).toEqual([
    { name: "one more", seq: 1, movedAt: start + 9_000 },
    { name: "name 999", seq: 999, movedAt: start + 1_001 },
  ]);
  expect(listed.map(({ name }) => name)).not.toContain("laptop");
  await Promise.all(Array.from({ length: 60 }, (_, n) => stores[(n % 3) as 0].moveCursor(`late ${n}`, n, start + 10_000 + n)));
  // Their clock is behind: a cursor that just moved stays.
  await stores[2].moveCursor("behind", 1, start - 1);
  const names = (await stores[0].listCursors()).map(({ name }) => name);
  expect(names).toHaveLength(1_000);
  expect(names).toEqual(expect.arrayContaining(["behind", "one more", ...Array.from({ length: 60 }, (_, n) => `late ${n}`)]));
});
