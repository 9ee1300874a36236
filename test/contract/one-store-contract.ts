import { afterEach, beforeEach, expect, test } from "vitest";
import {
  counters,
  deliveries,
  events,
  plans,
  queue,
  subjects,
} from "../../src/store/schema/tables.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import { anEvent, rulesFor, start } from "./store-events.ts";

const rules = rulesFor(
  [
    { name: "crm" },
    { name: "log", order: "none", match: { statuses: ["read"] } },
    { name: "tracked", match: { tracked: true } },
    { name: "whole", match: { events: ["message.held"] }, truncated: "hold" },
  ],
  { unknown: "park", parkFor: 60_000 },
);

/** The hot path: accept, due, settle. */
export function oneStoreContract(open: OpenStore): void {
  let store: OneStore;
  beforeEach(async () => {
    store = await open(rules);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  const counted = async (series: string) =>
    Object.fromEntries(
      (await store.rows(counters))
        .filter((row) => row.series === series)
        .map(({ of, label, n }) => [`${of}/${label}`, n]),
    );

  test("an id that is known only counts, and other bytes under it are a conflict", async () => {
    const event = anEvent({ wamid: "wamid.1", id: "known" });
    const other = anEvent({ wamid: "wamid.1", id: "known", status: "read" });
    await store.accept([event]);
    expect(await store.accept([event, other, event])).toEqual([
      { result: "duplicate", seq: 1, conflict: false },
      { result: "duplicate", seq: 1, conflict: true },
      { result: "duplicate", seq: 1, conflict: false },
    ]);
    expect(await store.rows(events)).toMatchObject([
      { seq: 1, duplicates: 3, conflicts: 1, body: event.body },
    ]);
    expect(await store.rows(subjects)).toMatchObject([{ status: "sent" }]);
    expect(await counted("secretRepeats")).toEqual({ "main/fingerprint": 3 });
  });

  test("a repeat that names another message makes no message", async () => {
    await store.accept([anEvent({ wamid: "wamid.1", id: "known" })]);
    await store.accept([anEvent({ wamid: "wamid.2", id: "known" })]);
    expect((await store.rows(subjects)).map(({ name }) => name)).toEqual(["wamid.1"]);
  });

  test("a repeat in the same batch is a duplicate of the first", async () => {
    const event = anEvent({ wamid: "wamid.1" });
    const outcomes = await store.accept([event, anEvent({ wamid: "wamid.2" }), event]);
    expect(outcomes.map(({ result, seq }) => [result, seq])).toEqual([
      ["accepted", 1],
      ["accepted", 2],
      ["duplicate", 1],
    ]);
    expect(await store.rows(events)).toMatchObject([{ duplicates: 1 }, { duplicates: 0 }]);
  });

  test("ids of two accounts, and ids of any length, are different events", async () => {
    const ids = [
      "fifteen-bytes-1",
      "00666966-7465-656e-2d62-797465732d31",
      "x",
      "\u00001234567890abcde",
    ];
    const sent = ids.flatMap((id) => [anEvent({ id }), anEvent({ id, account: "other" })]);
    expect((await store.accept(sent)).map(({ result }) => result)).toEqual(
      sent.map(() => "accepted"),
    );
    expect((await store.accept(sent)).map(({ result }) => result)).toEqual(
      sent.map(() => "duplicate"),
    );
    expect(new Set((await store.due("crm", start)).map(({ eventId }) => eventId))).toEqual(
      new Set(ids),
    );
  });

  test("a settlement that came before is late, and harms no other", async () => {
    await store.accept([anEvent({ wamid: "wamid.1" }), anEvent({ wamid: "wamid.2" })]);
    const [one, two] = await store.due("crm", start);
    const settlements = [one, two].map((delivery) =>
      settlementOf(delivery as never, "delivered", start),
    );
    await store.settle(settlements.slice(0, 1));
    expect(
      (await store.settle([...settlements, ...settlements.slice(1)])).map(({ result }) => result),
    ).toEqual(["late", "settled", "late"]);
    expect(await store.rows(deliveries)).toHaveLength(2);
    expect(await counted("attempts")).toEqual({ "crm/delivered": 2 });
  });

  test("the same attempt settles once, also as a failure", async () => {
    await store.accept([anEvent({ wamid: "wamid.1" })]);
    const [delivery] = await store.due("crm", start);
    const settlement = settlementOf(delivery as never, "waiting", start);
    expect((await store.settle([settlement, settlement])).map(({ result }) => result)).toEqual([
      "settled",
      "late",
    ]);
    const successful = settlementOf(delivery as never, "delivered", start);
    expect((await store.settle([settlement, successful])).map(({ result }) => result)).toEqual([
      "late",
      "late",
    ]);
    expect(await store.rows(queue)).toMatchObject([
      { route: "crm", attempts: 1 },
      { route: "tracked" },
    ]);
  });

  test("an event that cannot be stored fails alone", async () => {
    const good = [
      anEvent({ wamid: "wamid.1" }),
      anEvent({ wamid: "wamid.2" }),
      anEvent({ wamid: "wamid.3" }),
    ];
    const bad = { ...anEvent(), account: null as never };
    const settled = await Promise.allSettled(
      [...good.slice(0, 2), bad, ...good.slice(2)].map((event) => store.accept([event])),
    );
    expect(settled.map(({ status }) => status)).toEqual([
      "fulfilled",
      "fulfilled",
      "rejected",
      "fulfilled",
    ]);
    expect(await store.rows(events)).toHaveLength(3);
    // Their plan is stored, although a batch with it was rolled back.
    expect(await store.rows(plans)).toHaveLength(1);
    expect(await counted("events")).toEqual({ "main/routed": 3 });
  });
}
