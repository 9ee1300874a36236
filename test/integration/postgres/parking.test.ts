import fc from "fast-check";
import { expect, test } from "vitest";
import { dispositions } from "../../../src/model/states.ts";
import { createCommands } from "../../../src/store/create-store.ts";
import {
  counters,
  deliveries,
  events,
  queue,
  queueState,
  subjects,
} from "../../../src/store/schema/tables.ts";
import { settle } from "../../../src/store/work/attempts.ts";
import { createCounting } from "../../../src/store/work/counts.ts";
import { expireParked } from "../../../src/store/work/parking.ts";
import { createPlanNumbers } from "../../../src/store/work/plans.ts";
import { register } from "../../../src/store/work/register.ts";
import { emptyShared, type OneStore, settlementOf } from "../../contract/one-store.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { during } from "../../harness/postgres-gate.ts";

const parkFor = 60_000;
const rules = rulesFor([{ name: "ours", match: { tracked: true } }], { parkFor });
/** As before a reload that made the route wait for registrations. */
const untracked = rulesFor([{ name: "ours" }], { parkFor });
const parts = { rules, plans: createPlanNumbers(), counts: createCounting("other").begin };
const message = { account: "main", wamid: "w" };

const sum = (list: readonly number[]) => list.reduce((all, n) => all + n, 0);

async function sendAll(store: OneStore, now: number): Promise<number[]> {
  const order: number[] = [];
  for (;;) {
    const due = await store.due("ours", now);
    if (due.length === 0) return order;
    order.push(...due.map(({ event }) => event));
    await store.settle(due.map((delivery) => settlementOf(delivery, "delivered", now)));
  }
}

/** A store with a delivery that is out, and a parked event of the same message behind it. */
async function openWithBoth() {
  const shared = await emptyShared();
  const before = await shared.open(untracked);
  await before.accept([anEvent({ wamid: "w" })]);
  const store = await shared.open(rules);
  await store.accept([anEvent({ wamid: "w", status: "read" })]);
  const [out] = await store.due("ours", start);
  return {
    shared,
    store,
    settlement: settlementOf(out as never, "delivered", start),
    [Symbol.asyncDispose]: () => shared[Symbol.asyncDispose](),
  };
}

test("a registration waits for a running settlement in the lane, and its first delivery then goes out", async () => {
  await using both = await openWithBoth();
  const { shared, store, settlement } = both;
  const settling = () => settle([settlement], parts.counts, null);
  const [settled, registered] = await during(shared, settling, () =>
    store.register([message], start),
  );
  expect(settled).toMatchObject([{ result: "settled", released: null }]);
  expect(registered).toMatchObject({ created: 1, due: [{ event: 2 }] });
  expect(await sendAll(store, start)).toEqual([2]);
});

test("a settlement waits for a running registration in its lane, and releases what that holds", async () => {
  await using both = await openWithBoth();
  const { shared, store, settlement } = both;
  const registering = () => register([{ registrations: [message], at: start }], parts);
  const [registered, settled] = await during(shared, registering, () => store.settle([settlement]));
  expect(registered).toEqual([[{ result: "created", due: [] }]]);
  expect(settled).toMatchObject([{ result: "settled", released: { event: 2 } }]);
});

test("a registration releases an event that was being parked when it came", async () => {
  await using shared = await emptyShared();
  await using store = await shared.open(rules);
  await store.accept([anEvent({ wamid: "w" })]);
  const event = anEvent({ wamid: "w", status: "read" });
  const { accept } = createCommands({ rules, writer: "other", held: () => null });
  const accepting = () => accept.work([{ event, proxyRoute: null }]);
  const [, registered] = await during(shared, accepting, () => store.register([message], start));
  expect(registered).toMatchObject({ created: 1, due: [{ event: 1 }] });
  expect(await sendAll(store, start)).toEqual([1, 2]);
});

test("an event that ends while its message is registered ends once", async () => {
  await using shared = await emptyShared();
  await using store = await shared.open(rules);
  await store.accept([anEvent({ wamid: "w" }), anEvent({ wamid: "w", receivedAt: start + 1 })]);
  const expiring = () => expireParked(start + parkFor, 10, parts);
  const [expired, registered] = await during(shared, expiring, () =>
    store.register([message], start + parkFor),
  );
  expect(expired).toEqual({ concluded: 1, due: [] });
  expect(registered).toMatchObject({ created: 1, due: [{ event: 2 }] });
  expect((await store.rows(events)).map(({ disposition }) => dispositions[disposition])).toEqual([
    "ignored",
    "routed",
  ]);
});

test("of two contradicting registrations at once, one is rejected with its whole list", async () => {
  await using shared = await emptyShared();
  const stores = await Promise.all(["one", "two"].map((writer) => shared.open(rules, { writer })));
  const list = (reference: string) => [
    { account: "main", wamid: `beside ${reference}` },
    { ...message, reference },
  ];
  const results = await Promise.allSettled(
    stores.map((store, place) => store.register(list(String(place)), start)),
  );
  const won = results.findIndex(({ status }) => status === "fulfilled");
  expect(results[1 - won]).toMatchObject({ status: "rejected", reason: { code: "conflict" } });
  const stored = await stores[0]?.rows(subjects);
  expect(new Set(stored?.map(({ name, reference }) => `${name} ${reference}`))).toEqual(
    new Set([`beside ${won} null`, `w ${won}`]),
  );
});

test("creates each of many messages once when two processes register them", async () => {
  await using shared = await emptyShared();
  const stores = await Promise.all(["one", "two"].map((writer) => shared.open(rules, { writer })));
  const list = Array.from({ length: 300 }, (_, n) => ({
    account: "main",
    wamid: `w${n}`,
    id: `msg_${n}`,
    reference: "campaign",
  }));
  const outcomes = await Promise.all(
    stores.map((store, place) => store.registerEach(place === 0 ? list : list.toReversed(), start)),
  );
  const results = Map.groupBy(outcomes.flat(), ({ result }) => result);
  expect([results.get("created")?.length, results.get("known")?.length]).toEqual([300, 300]);
  expect(await stores[0]?.rows(subjects)).toHaveLength(300);
});

test("registrations, ends and events at once conclude each event once, and deliveries go out in order", async () => {
  await using shared = await emptyShared();
  const stores = await Promise.all(
    ["one", "two", "three"].map((writer) => shared.open(rules, { writer })),
  );
  const storeOf = (n: number) => stores[n % 3] as OneStore;
  const count = fc.integer({ min: 0, max: 6 });
  const steps = fc.array(
    fc.tuple(fc.nat(2), fc.constantFrom("register", "register", "expire", "accept")),
    { minLength: 2, maxLength: 8 },
  );
  let run = 0;
  await fc.assert(
    fc.asyncProperty(count, count, steps, async (old, young, order) => {
      run += 1;
      const wamid = `w${run}`;
      const all: number[] = [];
      const acceptBy = async (n: number, receivedAt: number) => {
        const [outcome] = await storeOf(n).accept([anEvent({ wamid, receivedAt })]);
        all.push(outcome?.seq ?? 0);
      };
      for (let n = 0; n < old + young; n += 1) await acceptBy(n, n < old ? start : start + parkFor);
      const now = start + parkFor;
      const created: number[] = [];
      const ended: number[] = [];
      await Promise.all(
        order.map(async ([n, what]) => {
          if (what === "accept") await acceptBy(n, now);
          else if (what === "expire")
            ended.push((await storeOf(n).expireParked(now, 10)).concluded);
          else created.push((await storeOf(n).register([{ account: "main", wamid }], now)).created);
        }),
      );
      const registrations = order.filter(([, what]) => what === "register").length;
      expect(sum(created)).toBe(Math.min(1, registrations));
      const rows = (await storeOf(0).rows(events)).filter(({ seq }) => all.includes(seq));
      const inState = (word: (typeof dispositions)[number]) =>
        rows.filter(({ disposition }) => dispositions[disposition] === word).map(({ seq }) => seq);
      expect(inState("ignored")).toHaveLength(sum(ended));
      expect(inState("ignored").length).toBeLessThanOrEqual(old);
      if (registrations > 0) expect(inState("parked")).toEqual([]);
      const waiting = (await storeOf(0).rows(queue)).filter(({ event }) => all.includes(event));
      const parked = waiting
        .filter(({ state }) => state === queueState.parked)
        .map(({ event }) => event);
      expect(parked.toSorted((a, b) => a - b)).toEqual(inState("parked"));
      expect(await sendAll(storeOf(1), now)).toEqual(inState("routed"));
      // What no run has registered ends now, so that the next one begins with nothing parked.
      await storeOf(0).expireParked(now + parkFor, 100);
    }),
    { numRuns: 15 },
  );
  const store = storeOf(0);
  const stored = await store.rows(events);
  const counted = Map.groupBy(
    (await store.rows(counters)).filter(({ series }) => series === "events"),
    ({ label }) => label,
  );
  for (const [code, word] of dispositions.entries())
    expect(sum(counted.get(word)?.map(({ n }) => n) ?? [])).toBe(
      stored.filter(({ disposition }) => disposition === code).length,
    );
  expect(await store.rows(deliveries)).toHaveLength(
    stored.filter(({ disposition }) => dispositions[disposition] === "routed").length,
  );
});
