import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { hydrationStates } from "../../src/model/hydration.ts";
import {
  attempts,
  counters,
  deliveries,
  events,
  hydrations,
  never,
  plans,
  queue,
  queueState,
  settledState,
  state,
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

/** The hot path: accept, due, settle. `tags`: of the whole suite. */
export function oneStoreContract(name: string, open: OpenStore, tags: string[] = []): void {
  describe(name, { tags }, () => {
    let store: OneStore;
    beforeEach(async () => {
      store = await open(rules);
    });
    afterEach(() => store[Symbol.asyncDispose]());

    const counted = async (series: string) =>
      Object.fromEntries(
        (await store.rows(counters)).filter((row) => row.series === series).map(({ of, label, n }) => [`${of}/${label}`, n]),
      );

    test("an event is stored, tracked, planned and counted in one step", async () => {
      const event = anEvent({ wamid: "wamid.1", status: "sent", id: "00000000-0000-7000-8000-000000000001" });
      expect(await store.accept([event])).toEqual([
        { result: "accepted", seq: 1, disposition: "routed", due: [{ route: "crm", event: 1, at: start, lane: 1 }] },
      ]);
      expect(await store.rows(events)).toMatchObject([
        {
          seq: 1,
          account: "main",
          kind: "message.status",
          subject: 1,
          status: "sent",
          moved: 1,
          duplicates: 0,
          conflicts: 0,
          body: event.body,
        },
      ]);
      expect(await store.rows(subjects)).toMatchObject([
        { seq: 1, name: "wamid.1", status: "sent", times: `{"sent":${start}}`, updated_at: start },
      ]);
      expect(await store.rows(queue)).toMatchObject([
        { lane: 1, route: "crm", event: 1, state: queueState.waiting, next_at: start },
        { lane: 1, route: "tracked", event: 1, state: queueState.parked, next_at: start + 60_000 },
      ]);
      const [plan] = await store.rows(plans);
      expect(JSON.parse(plan?.verdicts ?? "")).toContainEqual(["tracked", "park"]);
      expect(await counted("events")).toEqual({ "main/routed": 1 });
      expect(await counted("transitions")).toEqual({ "main/sent": 1 });
      expect(await counted("secret")).toEqual({ "main/fingerprint": 1 });
    });

    test("an id that is known only counts, and other bytes under it are a conflict", async () => {
      const event = anEvent({ wamid: "wamid.1", id: "known" });
      const other = anEvent({ wamid: "wamid.1", id: "known", status: "read" });
      await store.accept([event]);
      expect(await store.accept([event, other, event])).toEqual([
        { result: "duplicate", seq: 1, conflict: false },
        { result: "duplicate", seq: 1, conflict: true },
        { result: "duplicate", seq: 1, conflict: false },
      ]);
      expect(await store.rows(events)).toMatchObject([{ seq: 1, duplicates: 3, conflicts: 1, body: event.body }]);
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
      const ids = ["fifteen-bytes-1", "00666966-7465-656e-2d62-797465732d31", "x", "\u00001234567890abcde"];
      const sent = ids.flatMap((id) => [anEvent({ id }), anEvent({ id, account: "other" })]);
      expect((await store.accept(sent)).map(({ result }) => result)).toEqual(sent.map(() => "accepted"));
      expect((await store.accept(sent)).map(({ result }) => result)).toEqual(sent.map(() => "duplicate"));
      expect(new Set((await store.due("crm", start)).map(({ eventId }) => eventId))).toEqual(new Set(ids));
    });

    test("a status does not move back, in one batch or over two", async () => {
      const of = (status: string) => anEvent({ wamid: "wamid.1", status });
      await store.accept([of("read"), of("delivered")]);
      await store.accept([of("sent")]);
      expect(await store.rows(subjects)).toMatchObject([{ status: "read" }]);
      expect((await store.rows(events)).map(({ moved, previous_status }) => [moved, previous_status])).toEqual([
        [1, null],
        [0, "read"],
        [0, "read"],
      ]);
    });

    test("deliveries of a message are held behind each other, and go out one by one in order", async () => {
      const of = (status: string) => anEvent({ wamid: "wamid.1", status });
      await store.accept([of("sent"), of("delivered")]);
      await store.accept([of("read"), anEvent({ wamid: "wamid.2" })]);
      const seen: number[] = [];
      for (let round = 0; round < 3; round += 1) {
        const due = (await store.due("crm", start + 10 * round)).filter(({ lane }) => lane === 1);
        expect(due).toHaveLength(1);
        seen.push(due[0]?.event ?? 0);
        const [outcome] = await store.settle(due.map((delivery) => settlementOf(delivery, "delivered", start + 10 * round + 10)));
        expect(outcome).toMatchObject({ result: "settled", released: round < 2 ? { route: "crm", event: round + 2, lane: 1 } : null });
      }
      expect(seen).toEqual([1, 2, 3]);
    });

    test("an attempt that fails waits, and the one that settles is stored with the delivery", async () => {
      await store.accept([anEvent({ wamid: "wamid.1" })]);
      const [first] = await store.due("crm", start);
      await store.settle([settlementOf(first as never, "waiting", start + 10, { failing: { since: start, attempts: 1, cause: "503" } })]);
      expect(await store.due("crm", start + 500)).toEqual([]);
      expect(await store.nextDueAt("crm", start + 500)).toBe(start + 1_010);
      const [second] = await store.due("crm", start + 1_010);
      expect(second).toMatchObject({ attempts: 1, spent: 1, cause: "503" });
      await store.settle([settlementOf(second as never, "dead", start + 1_020, { stop: "gone" })]);
      expect(await store.rows(attempts)).toMatchObject([{ event: 1, route: "crm", number: 1, status: 503, took_ms: 5 }]);
      expect(await store.rows(deliveries)).toMatchObject([
        {
          event: 1,
          route: "crm",
          state: settledState.dead,
          attempts: 2,
          spent: 2,
          reason: "attempts",
          cause: "503",
          status: 503,
          settled_at: start + 1_020,
        },
      ]);
      expect(await store.rows(state)).toMatchObject([
        { key: "failing/crm" },
        { key: "stop/crm", value: `{"at":${start + 1_020},"reason":"gone"}` },
      ]);
      expect(await counted("attempts")).toEqual({ "crm/503": 2 });
      expect(await counted("dead")).toEqual({ "crm/": 1 });
    });

    test("a settlement that came before is late, and harms no other", async () => {
      await store.accept([anEvent({ wamid: "wamid.1" }), anEvent({ wamid: "wamid.2" })]);
      const [one, two] = await store.due("crm", start);
      const settlements = [one, two].map((delivery) => settlementOf(delivery as never, "delivered", start));
      await store.settle(settlements.slice(0, 1));
      expect((await store.settle([...settlements, ...settlements.slice(1)])).map(({ result }) => result)).toEqual([
        "late",
        "settled",
        "late",
      ]);
      expect(await store.rows(deliveries)).toHaveLength(2);
      expect(await counted("attempts")).toEqual({ "crm/delivered": 2 });
    });

    test("the same attempt settles once, also as a failure", async () => {
      await store.accept([anEvent({ wamid: "wamid.1" })]);
      const [delivery] = await store.due("crm", start);
      const settlement = settlementOf(delivery as never, "waiting", start);
      expect((await store.settle([settlement, settlement])).map(({ result }) => result)).toEqual(["settled", "late"]);
      const successful = settlementOf(delivery as never, "delivered", start);
      expect((await store.settle([settlement, successful])).map(({ result }) => result)).toEqual(["late", "late"]);
      expect(await store.rows(queue)).toMatchObject([{ route: "crm", attempts: 1 }, { route: "tracked" }]);
    });

    test("an exchange of a proxy is due in a minute, and no dispatcher sees it", async () => {
      await store.accept([anEvent({ wamid: "wamid.1" })], "proxy:main");
      expect(await store.due("proxy:main", start + 120_000)).toEqual([]);
      const row = (await store.rows(queue)).find(({ route }) => route === "proxy:main");
      expect(row).toMatchObject({ lane: -1, event: 1, state: queueState.exchange, next_at: start + 60_000 });
      const exchange = {
        route: "proxy:main",
        event: 1,
        lane: -1,
        account: "main",
        attempts: 0,
        spent: 0,
        replays: 0,
        cause: null,
        receivedAt: start,
      };
      expect(await store.settle([settlementOf(exchange as never, "delivered", start + 5)])).toEqual([
        { result: "settled", released: null },
      ]);
    });

    test("a truncated event that a route holds waits for its hydration, and no clock ends that", async () => {
      await store.accept([
        { ...anEvent({ event: "message.held" }), envelope: { ...anEvent({ event: "message.held" }).envelope, data: { truncated: true } } },
      ]);
      expect(await store.rows(hydrations)).toMatchObject([{ event: 1, account: "main", state: hydrationStates.indexOf("waiting") }]);
      expect(await store.rows(queue)).toContainEqual(
        expect.objectContaining({ route: "whole", lane: -1, state: queueState.parked, next_at: never }),
      );
    });

    test("an event that cannot be stored fails alone", async () => {
      const good = [anEvent({ wamid: "wamid.1" }), anEvent({ wamid: "wamid.2" }), anEvent({ wamid: "wamid.3" })];
      const bad = { ...anEvent(), account: null as never };
      const settled = await Promise.allSettled([...good.slice(0, 2), bad, ...good.slice(2)].map((event) => store.accept([event])));
      expect(settled.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled", "rejected", "fulfilled"]);
      expect(await store.rows(events)).toHaveLength(3);
      // Their plan is stored, although a batch with it was rolled back.
      expect(await store.rows(plans)).toHaveLength(1);
      expect(await counted("events")).toEqual({ "main/routed": 3 });
    });
  });
}
