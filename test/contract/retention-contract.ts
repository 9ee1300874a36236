import { expect, test } from "vitest";
import type { RetentionTimes } from "../../src/store/work/retention.ts";
import type { ContractStore, OpenSubject } from "./contract-store.ts";
import { accept, dead, delivered, later, openWith, settle } from "./contract-tools.ts";
import { anEvent, start, unreadable } from "./store-events.ts";

const day = 86_400_000;
const keep: RetentionTimes = {
  events: 30 * day,
  ignored: day,
  deliveries: 30 * day,
  messages: 180 * day,
  history: 400 * day,
};

/** A whole pass in steps of `limit`; gives what was deleted, and the most that one step deleted. */
export async function purgeAll(
  store: ContractStore,
  now: number,
  kept: RetentionTimes = keep,
  limit = 3,
) {
  const sum = { events: 0, deliveries: 0, messages: 0, most: 0 };
  for (let steps = 0; steps < 1_000; steps += 1) {
    const purged = await store.purge(now, kept, limit);
    sum.events += purged.events;
    sum.deliveries += purged.deliveries;
    sum.messages += purged.messages;
    sum.most = Math.max(sum.most, purged.events, purged.messages);
    if (purged.done) return sum;
  }
  throw new Error("retention never came to an end");
}

export function retentionContract(open: OpenSubject): void {
  test("keeps young events, and old ones with an open delivery", async () => {
    const { store } = await openWith(open, [{ name: "a" }, { name: "b" }]);
    const done = await accept(store, { wamid: "done" });
    await settle(store, "a", done, delivered);
    await settle(store, "b", done, dead);
    const half = await accept(store, { wamid: "half" });
    await settle(store, "a", half, delivered);
    await settle(store, "b", half, later(start + 365 * day));
    const held = await accept(store, { wamid: "half" });
    const young = await accept(store, { wamid: "young", receivedAt: start + 31 * day });
    await settle(store, "a", young, delivered, { at: start + 31 * day });
    const now = start + 32 * day;
    expect(await purgeAll(store, now)).toMatchObject({ events: 1, deliveries: 3 });
    expect(await store.event(done)).toBeNull();
    expect(await store.delivery(done, "a")).toBeNull();
    expect(await store.event(half)).toMatchObject({ disposition: "routed" });
    expect(await store.delivery(half, "a")).toBeNull();
    expect(await store.delivery(half, "b")).toMatchObject({
      state: "waiting",
      attemptHistory: { length: 1 },
    });
    expect(await store.delivery(held, "b")).toMatchObject({ state: "held" });
    expect(await store.delivery(young, "a")).toMatchObject({
      state: "delivered",
      attemptHistory: { length: 1 },
    });
    expect(await store.message("main", "half")).not.toBeNull();
    // It still goes out, whole.
    expect(await store.load("b", half)).toMatchObject({ subject: { key: "half" } });
    expect(await settle(store, "b", half, delivered, { at: now })).toBe(held);
    expect(await purgeAll(store, now)).toMatchObject({ events: 0, deliveries: 0 });
  });

  test("keeps settled deliveries by the time they settled, and their event as long", async () => {
    const { store } = await openWith(open, [{ name: "a" }]);
    const seq = await accept(store, { wamid: "w" });
    await accept(store, { wamid: "last" });
    await settle(store, "a", seq, delivered, { at: start + 20 * day });
    expect(await purgeAll(store, start + 40 * day)).toMatchObject({ events: 0, deliveries: 0 });
    expect(await purgeAll(store, start + 50 * day + 1)).toMatchObject({ events: 1, deliveries: 1 });
  });

  test("can delete deliveries before their events, which keep their ids", async () => {
    const { store } = await openWith(open, [{ name: "a" }]);
    const event = anEvent({ wamid: "w" });
    const { seq } = await store.accept(event);
    await settle(store, "a", seq, delivered);
    expect(await purgeAll(store, start + 8 * day, { ...keep, deliveries: 7 * day })).toMatchObject({
      events: 0,
      deliveries: 1,
    });
    expect(await store.event(seq)).toMatchObject({ disposition: "routed" });
    expect(await store.accept(event)).toMatchObject({ result: "duplicate", seq });
    expect(await store.due("a", start + 8 * day, 10)).toEqual([]);
  });

  test("keeps the greatest seq, so no seq is reused", async () => {
    const subject = await openWith(open, [{ name: "a", match: { statuses: ["none"] } }]);
    const seqs = [];
    for (let n = 0; n < 10; n += 1) seqs.push(await accept(subject.store, { wamid: `w${n}` }));
    expect(await purgeAll(subject.store, start + 400 * day)).toMatchObject({ events: 9, most: 3 });
    const store = await subject.reopen();
    expect(await store.event(seqs[9] as number)).not.toBeNull();
    expect(await accept(store, { receivedAt: start + 400 * day })).toBeGreaterThan(
      seqs[9] as number,
    );
    expect(await purgeAll(store, start + 400 * day)).toMatchObject({ events: 1 });
  });

  test("deletes ignored events after their shorter time", async () => {
    const { store } = await openWith(
      open,
      [{ name: "ours", match: { events: ["message.*"], tracked: true } }],
      { unknown: "ignore" },
    );
    const ignored = [];
    for (let n = 0; n < 8; n += 1)
      ignored.push(await accept(store, { wamid: `w${n}`, receivedAt: start + n }));
    const filtered = await accept(store, { event: "contact.created" });
    const last = await accept(store, { wamid: "last" });
    expect(await purgeAll(store, start + day)).toMatchObject({ events: 0 });
    expect(await purgeAll(store, start + day + 5)).toMatchObject({ events: 5, most: 3 });
    expect(await store.event(ignored[5] as number)).not.toBeNull();
    expect(await purgeAll(store, start + 2 * day)).toMatchObject({ events: 3 });
    expect(await store.event(filtered)).not.toBeNull();
    expect(await store.event(last)).not.toBeNull();
  });

  test("keeps quarantined bodies as long as events", async () => {
    const { store } = await openWith(open, []);
    const { seq } = await store.quarantine(unreadable(anEvent()));
    await accept(store, {});
    await purgeAll(store, start + 29 * day);
    expect(await store.event(seq)).not.toBeNull();
    await purgeAll(store, start + 31 * day);
    expect(await store.event(seq)).toBeNull();
  });

  test("keeps registered messages long, and unregistered ones as long as ignored events", async () => {
    const { store } = await openWith(
      open,
      [{ name: "a", match: { events: ["message.*"], tracked: true } }],
      { unknown: "ignore" },
    );
    await store.register(
      Array.from({ length: 5 }, (_, n) => ({ account: "main", wamid: `ours${n}` })),
      start,
    );
    for (let n = 0; n < 5; n += 1) await accept(store, { wamid: `seen${n}` });
    await accept(store, { wamid: "last", receivedAt: start + 200 * day });
    expect(await purgeAll(store, start + day)).toMatchObject({ messages: 0 });
    expect(await purgeAll(store, start + 2 * day)).toMatchObject({
      events: 5,
      messages: 5,
      most: 3,
    });
    expect(await store.message("main", "ours0")).not.toBeNull();
    expect(await store.message("main", "seen0")).toBeNull();
    await accept(store, { wamid: "ours1", status: "read", receivedAt: start + 100 * day });
    expect(await purgeAll(store, start + 181 * day)).toMatchObject({ messages: 4 });
    expect(await store.message("main", "ours0")).toBeNull();
    expect(await store.message("main", "ours1")).toMatchObject({
      status: "read",
      registeredAt: start,
    });
    expect(await store.message("main", "last")).not.toBeNull();
  });

  test("keeps a registered message as long as its events", async () => {
    const { store } = await openWith(open, [{ name: "a" }]);
    await store.register([{ account: "main", wamid: "w" }], start);
    // A word that moves nothing: the message is as old as its registration.
    const seq = await accept(store, { wamid: "w", status: "odd" });
    await accept(store, { wamid: "last", receivedAt: start + 400 * day });
    expect(await purgeAll(store, start + 400 * day)).toMatchObject({ events: 0, messages: 0 });
    expect(await store.message("main", "w")).toMatchObject({ registeredAt: start });
    await settle(store, "a", seq, delivered, { at: start + 400 * day });
    expect(await purgeAll(store, start + 440 * day)).toMatchObject({
      events: 1,
      deliveries: 1,
      messages: 1,
    });
    expect(await store.message("main", "w")).toBeNull();
  });

  test("keeps an unregistered message or run as long as its events, so its status moves never backwards", async () => {
    const { store } = await openWith(open, [{ name: "a", emit: "transitions" }]);
    const read = await accept(store, { wamid: "w", status: "read" });
    await settle(store, "a", read, delivered);
    const completed = await accept(store, { event: "automation.completed", runId: "run0" });
    await settle(store, "a", completed, delivered);
    await accept(store, { runId: "run1" });
    await accept(store, { wamid: "last" });
    expect(await purgeAll(store, start + 29 * day)).toMatchObject({ messages: 0 });
    const late = await accept(store, { wamid: "w", status: "sent", receivedAt: start + 29 * day });
    expect(await store.event(late)).toMatchObject({ disposition: "filtered" });
    expect(await store.message("main", "w")).toMatchObject({ status: "read" });
    await purgeAll(store, start + 31 * day);
    expect(await store.run("main", "run0")).toBeNull();
    expect(await store.message("main", "w")).toMatchObject({ status: "read" });
    await accept(store, { wamid: "after", receivedAt: start + 60 * day });
    await purgeAll(store, start + 60 * day);
    expect(await store.message("main", "w")).toBeNull();
  });
}
