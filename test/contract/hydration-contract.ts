import { expect, test } from "vitest";
import { fieldsSchema, polledEvent } from "../../src/model/event.ts";
import type { Wamid } from "../../src/model/ids.ts";
import type { ContractStore, OpenSubject } from "./contract-store.ts";
import { accept, openWith, stateOf } from "./contract-tools.ts";
import { type EventParts, start } from "./store-events.ts";

const routes = [{ name: "all" }, { name: "holding", truncated: "hold" }] as const;
const truncatedData = { truncated: true, id: null, size: 300_000 };
const top = { registeredAt: Number.MAX_SAFE_INTEGER, message: Number.MAX_SAFE_INTEGER };
const all = { reason: null, unknown: 0, receivedBy: Number.MAX_SAFE_INTEGER };

function truncated(store: ContractStore, parts: EventParts = {}): Promise<number> {
  return accept(store, { ...parts, data: { ...truncatedData, ...parts.data } });
}

async function passOf(store: ContractStore, account = "main", now = start) {
  const pass = await store.beginPass(account, now);
  if (pass === null) throw new Error("nothing waits");
  return pass;
}

function news(wamid: string, status: string, messageId = `id-of-${wamid}`) {
  return polledEvent({
    account: "main",
    source: "main",
    fields: fieldsSchema.parse({}),
    origin: "hydrate",
    messageId,
    wamid: wamid as Wamid,
    status,
    errorCode: null,
    at: start + 5,
  });
}

async function register(store: ContractStore, wamids: readonly string[], at = start) {
  for (const wamid of wamids)
    await store.register([{ account: "main", wamid, id: `id-of-${wamid}` }], at);
}

export function hydrationContract(open: OpenSubject): void {
  test("a truncated event waits from the moment it is accepted, and a route that holds does not get it", async () => {
    const { store } = await openWith(open, routes);
    expect(await store.waitingAccounts()).toEqual([]);
    const seq = await truncated(store);
    expect(await store.event(seq)).toMatchObject({
      disposition: "routed",
      parkedUntil: null,
      verdicts: [
        ["all", "deliver"],
        ["holding", "park"],
      ],
      hydration: { state: "waiting", reason: null, polled: 0, found: [], settledAt: null },
    });
    expect([await stateOf(store, seq, "all"), await stateOf(store, seq, "holding")]).toEqual([
      "waiting",
      null,
    ]);
    expect(await store.waitingAccounts()).toEqual(["main"]);
    expect(await store.waitingSince("main")).toBe(start);
    expect(await store.expireParked(start + 10 * 86_400_000, 10)).toBe(0);
  });

  test("an event with its data, or with its message's id, has no hydration", async () => {
    const { store } = await openWith(open, routes);
    const usual = await accept(store, { wamid: "w" });
    const named = await truncated(store, { wamid: "w" });
    for (const seq of [usual, named]) expect((await store.event(seq))?.hydration).toBeNull();
    expect(await stateOf(store, usual, "holding")).toBe("waiting");
    expect(await store.waitingAccounts()).toEqual([]);
  });

  test("an event whose account cannot be called settles at once and goes to every route", async () => {
    const { store } = await openWith(open, routes);
    const keyless = await truncated(store, { account: "keyless" });
    const run = await truncated(store, { event: "automation.completed" });
    const other = await truncated(store, { event: "contact.created" });
    expect((await store.event(keyless))?.hydration).toMatchObject({
      state: "given-up",
      reason: "no-key",
      unknown: null,
      settledAt: start,
    });
    expect((await store.event(run))?.hydration).toMatchObject({
      state: "given-up",
      reason: "not-readable",
      unknown: null,
    });
    expect((await store.event(other))?.hydration).toMatchObject({
      state: "given-up",
      reason: "not-readable",
    });
    for (const seq of [keyless, run, other])
      expect(await stateOf(store, seq, "holding")).toBe("waiting");
    expect(await store.waitingAccounts()).toEqual([]);
    expect((await store.load("holding", run))?.hydration).toMatchObject({
      state: "given-up",
      reason: "not-readable",
    });
  });

  test("runs one pass per account over the events waiting at its start, and continues it after a restart", async () => {
    const subject = await openWith(open, routes);
    const first = await truncated(subject.store, { id: "first" });
    await truncated(subject.store, { receivedAt: start + 7 });
    const pass = await passOf(subject.store, "main", start + 10);
    expect(pass).toMatchObject({
      startedAt: start + 10,
      polled: 0,
      source: "main",
      because: "first",
      covered: { events: 2, oldest: start, newest: start + 7 },
    });
    const late = await truncated(subject.store, { receivedAt: start + 20 });
    await subject.store.noteReads(pass, 3, [], start);
    const store = await subject.reopen();
    expect(await passOf(store, "main", start + 30)).toEqual({ ...pass, polled: 3 });
    expect((await store.event(first))?.hydration).toMatchObject({ state: "waiting", polled: 3 });
    expect((await store.event(late))?.hydration).toMatchObject({ state: "waiting", polled: 0 });
    expect(await store.settleCovered(pass, all, start + 40, 10)).toMatchObject({ events: 2 });
    expect(await store.covered(pass)).toBeNull();
    await store.endPass(pass);
    expect((await passOf(store, "main", start + 50)).covered).toEqual({
      events: 1,
      oldest: start + 20,
      newest: start + 20,
    });
    expect(await store.beginPass("nobody", start)).toBeNull();
    expect(await store.callsSince("main", start)).toBe(3);
    expect(await store.callsSince("main", start + 41)).toBe(0);
  });

  test("a crashed pass with nothing left to settle does not block the next", async () => {
    const { store } = await openWith(open, routes);
    await truncated(store);
    const left = await passOf(store);
    await store.settleCovered(left, all, start, 10);
    expect(await store.beginPass("main", start)).toBeNull();
    await truncated(store);
    const next = await passOf(store, "main", start + 1);
    expect([next.through > left.through, next.covered.events]).toEqual([true, 1]);
  });

  test("statuses read since the event arrived settle it and release it", async () => {
    const { store } = await openWith(open, routes);
    await register(store, ["w", "v"]);
    const before = await truncated(store);
    expect(await store.accept(news("w", "sent"))).toMatchObject({ result: "accepted" });
    const between = await truncated(store);
    const pass = await passOf(store);
    expect((await store.event(between))?.hydration).toMatchObject({ found: [], foundCount: 0 });
    expect(await store.accept(news("v", "delivered"))).toMatchObject({ result: "accepted" });
    const settled = await store.settleCovered(pass, all, start + 9, 10);
    expect(settled).toEqual({ events: 2, due: [] });
    await store.endPass(pass);
    // What is learned later is nobody's of these.
    await store.accept(news("v", "read"));
    const found = [
      { wamid: "w", status: "sent" },
      { wamid: "v", status: "delivered" },
    ];
    expect((await store.event(before))?.hydration).toMatchObject({
      state: "done",
      found,
      foundCount: 2,
      unknown: 0,
      settledAt: start + 9,
    });
    expect((await store.event(between))?.hydration).toMatchObject({
      state: "done",
      found: found.slice(1),
      foundCount: 1,
    });
    expect((await store.event(before))?.verdicts).toEqual([
      ["all", "deliver"],
      ["holding", "skip", "hydrated"],
    ]);
  });

  test.each([
    ["nothing was found", { reason: null, unknown: 0 }, false],
    ["something stays unknown", { reason: null, unknown: 1 }, true],
    ["it was given up", { reason: "too-long", unknown: 0 }, true],
  ] as const)("%s: a route that held it gets it then", async (_, end, hasNews) => {
    const { store } = await openWith(open, [{ name: "holding", truncated: "hold" }]);
    await register(store, ["w"]);
    const seq = await truncated(store);
    expect(await store.event(seq)).toMatchObject({ disposition: "parked", parkedUntil: null });
    const pass = await passOf(store);
    if (hasNews) await store.accept(news("w", "sent"));
    const { due } = await store.settleCovered(pass, { ...end, receivedBy: start }, start + 9, 10);
    expect(due).toMatchObject([{ route: "holding", event: seq, at: start + 9 }]);
    expect(await store.event(seq)).toMatchObject({
      disposition: "routed",
      verdicts: [["holding", "deliver"]],
    });
    expect((await store.load("holding", seq))?.hydration).toMatchObject({
      state: end.reason === null ? "done" : "given-up",
      reason: end.reason,
      found: hasNews ? 1 : 0,
      unknown: end.unknown,
    });
  });

  test("an event that only waited and was replaced by polled events ends filtered", async () => {
    const { store } = await openWith(open, [
      { name: "holding", match: { events: ["message.*"] }, truncated: "hold" },
    ]);
    await register(store, ["w"]);
    const seq = await truncated(store);
    const pass = await passOf(store);
    await store.accept(news("w", "sent"));
    await store.settleCovered(pass, all, start, 10);
    expect(await store.event(seq)).toMatchObject({
      disposition: "filtered",
      verdicts: [["holding", "skip", "hydrated"]],
    });
  });

  test("expired events end and others continue, within the limit of a step", async () => {
    const { store } = await openWith(open, routes);
    const seqs = [];
    for (let n = 0; n < 5; n += 1) seqs.push(await truncated(store, { receivedAt: start + n }));
    const pass = await passOf(store, "main", start + 9);
    const old = { reason: "too-long", unknown: 2, receivedBy: start + 2 } as const;
    expect((await store.settleCovered(pass, old, start + 9, 2)).events).toBe(2);
    expect((await store.settleCovered(pass, old, start + 9, 2)).events).toBe(1);
    expect((await store.settleCovered(pass, old, start + 9, 2)).events).toBe(0);
    expect(await store.covered(pass)).toEqual({ events: 2, oldest: start + 3, newest: start + 4 });
    expect(await store.waitingSince("main")).toBe(start + 3);
  });

  test("lists tracked messages latest registered first, in pages, with or without the service's id", async () => {
    const { store } = await openWith(open, routes);
    await register(store, ["a", "b"], start);
    await register(store, ["c"], start + 5);
    await store.register([{ account: "main", wamid: "no-id" }], start + 6);
    await store.register([{ account: "other", wamid: "d", id: "id-of-d" }], start + 7);
    await accept(store, { wamid: "seen only" });
    await accept(store, { wamid: "b", status: "delivered", receivedAt: start + 3 });
    const query = { withId: true, before: top, from: start, limit: 2 };
    const page = await store.trackedMessages("main", query);
    expect(page.map(({ messageId }) => messageId)).toEqual(["id-of-c", "id-of-b"]);
    expect(page[1]).toMatchObject({
      status: "delivered",
      registeredAt: start,
      sentAt: null,
      changedAt: start + 3,
      readAt: null,
    });
    const rest = await store.trackedMessages("main", {
      ...query,
      before: page[1] as (typeof page)[number],
    });
    expect(rest.map(({ messageId }) => messageId)).toEqual(["id-of-a"]);
    expect(await store.trackedMessages("main", { ...query, from: start + 6 })).toEqual([]);
    expect(await store.trackedMessages("main", { ...query, withId: false })).toMatchObject([
      { messageId: null, registeredAt: start + 6 },
    ]);
    expect(await store.trackedMessages("nobody", query)).toEqual([]);
  });

  test("stores the number of polls", async () => {
    const subject = await openWith(open, routes);
    await register(subject.store, ["a", "b"]);
    await truncated(subject.store);
    const pass = await passOf(subject.store);
    const query = { withId: true, before: top, from: 0, limit: 10 };
    const [b, a] = await subject.store.trackedMessages("main", query);
    await subject.store.noteReads(
      pass,
      2,
      [
        { message: b?.message as number, at: start + 1 },
        { message: a?.message as number, at: start + 2 },
      ],
      start,
    );
    const store = await subject.reopen();
    expect(await store.trackedMessages("main", query)).toMatchObject([
      { messageId: "id-of-b", readAt: start + 1 },
      { messageId: "id-of-a", readAt: start + 2 },
    ]);
  });
}
