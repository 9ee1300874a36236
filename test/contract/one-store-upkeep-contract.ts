import { afterEach, beforeEach, expect, test } from "vitest";
import { events, hydrations, polls, state, subjects } from "../../src/store/schema/tables.ts";
import { createRetention } from "../../src/store/work/retention.ts";
import { put } from "../../src/store/work/state.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import { anEvent, rulesFor } from "./store-events.ts";

const day = 86_400_000;
/**
 * Before now by the clock of the database, which decides with that of the process when a value may
 * go.
 */
const begin = Date.parse("2026-01-01T00:00:00Z");
const keep = {
  events: 30 * day,
  ignored: day,
  deliveries: 30 * day,
  messages: 60 * day,
  history: 60 * day,
};

export function oneStoreUpkeepContract(open: OpenStore): void {
  let store: OneStore;
  beforeEach(async () => {
    store = await open(rulesFor([{ name: "all" }]));
  });
  afterEach(() => store[Symbol.asyncDispose]());

  async function purgeAll(now: number): Promise<void> {
    const purge = createRetention(store.run);
    for (let done = false; !done; ) ({ done } = await purge(now, keep, 2));
  }

  test("deletes an event with its hydration, and a message with its poll", async () => {
    await store.register([{ account: "main", wamid: "old", id: "msg_old" }], begin);
    await store.register([{ account: "main", wamid: "new", id: "msg_new" }], begin + 90 * day);
    const truncated = { event: "message.status", data: { id: null, truncated: true } };
    await store.accept([
      anEvent({ ...truncated, receivedAt: begin }),
      anEvent({ ...truncated, receivedAt: begin + 90 * day }),
      anEvent({ receivedAt: begin + 90 * day }),
    ]);
    const due = await store.due("all", begin + 90 * day);
    await store.settle(
      due.map((delivery) => settlementOf(delivery, "delivered", delivery.receivedAt)),
    );
    expect(await store.rows(hydrations)).toMatchObject([{ event: 1 }, { event: 2 }]);
    await purgeAll(begin + 90 * day);
    expect((await store.rows(events)).map(({ seq }) => seq)).toEqual([2, 3]);
    expect((await store.rows(hydrations)).map(({ event }) => event)).toEqual([2]);
    expect((await store.rows(subjects)).map((row) => row.name)).toEqual(["new"]);
    expect((await store.rows(polls)).map(({ message }) => message)).toEqual([2]);
  });

  test("deletes small values after their time, by either clock", async () => {
    for (const [key, until] of Object.entries({
      past: begin - 1,
      other: begin - 2,
      now: begin,
      long: null,
      later: Date.now() + day,
    }))
      await store.run(() => put(key, 1, until));
    await purgeAll(begin);
    expect((await store.rows(state)).map(({ key }) => key)).toEqual(["later", "long", "now"]);
    await purgeAll(Date.now() + 2 * day);
    expect((await store.rows(state)).map(({ key }) => key)).toEqual(["later", "long"]);
  });
}
