import { expect, test } from "vitest";
import { deliveryId, type EventId } from "../../src/model/ids.ts";
import type { OpenSubject } from "./contract-store.ts";
import { accept, delivered, openWith, settle, stateOf } from "./contract-tools.ts";
import { anEvent, start, unreadable } from "./store-events.ts";

const twoRoutes = [{ name: "one" }, { name: "two" }];
const uuid = "0192f0c1-7a3b-7cde-8f01-23456789abcd";

export function acceptingContract(open: OpenSubject): void {
  test("of 50 concurrent copies one is accepted, the others are duplicates, and each route gets one delivery", async () => {
    const { store } = await openWith(open, twoRoutes);
    const event = anEvent({ wamid: "w" });
    const outcomes = await Promise.all(Array.from({ length: 50 }, () => store.accept(event)));
    const accepted = outcomes.filter(({ result }) => result === "accepted");
    expect(accepted).toMatchObject([
      { disposition: "routed", due: [{ route: "one" }, { route: "two" }] },
    ]);
    const seq = accepted[0]?.seq as number;
    expect(outcomes.filter(({ result }) => result === "duplicate")).toEqual(
      Array.from({ length: 49 }, () => ({ result: "duplicate", seq, conflict: false })),
    );
    expect(await store.event(seq)).toMatchObject({ duplicates: 49, conflicts: 0 });
    expect(await store.due("one", start, 10)).toEqual([seq]);
    expect(await store.due("two", start, 10)).toEqual([seq]);
  });

  test("a duplicate changes nothing in any state of the first event, also after reopening", async () => {
    const subject = await openWith(open, twoRoutes);
    const event = anEvent({ wamid: "w", status: "read" });
    const seq = await accept(subject.store, { id: event.envelope.id, wamid: "w", status: "read" });
    await settle(subject.store, "one", seq, delivered);
    const store = await subject.reopen();
    expect(await store.accept(event)).toMatchObject({ result: "duplicate", seq });
    expect(await stateOf(store, seq, "one")).toBe("delivered");
    expect(await store.due("one", start, 10)).toEqual([]);
    expect(await store.due("two", start, 10)).toEqual([seq]);
  });

  test("compares ids as text, within one account", async () => {
    const { store } = await openWith(open, twoRoutes);
    const ids = [
      uuid,
      uuid.toUpperCase(),
      uuid.replaceAll("-", ""),
      "1",
      "01",
      "1.0",
      "ünï",
      "a\0b",
      " a",
      "a",
      "A",
      "x".repeat(256),
      "😀".repeat(256),
    ];
    const seqs: number[] = [];
    for (const id of ids) seqs.push(await accept(store, { id }));
    expect(new Set(seqs).size).toBe(ids.length);
    expect(seqs).toEqual(seqs.toSorted((a, b) => a - b));
    const read = await Promise.all(seqs.map((seq) => store.event(seq)));
    expect(read.map((event) => event?.id)).toEqual(ids);
    expect(await store.accept(anEvent({ id: uuid, account: "other" }))).toMatchObject({
      result: "accepted",
    });
    for (const id of ids)
      expect(await store.accept(anEvent({ id }))).toMatchObject({ result: "duplicate" });
    for (const [index, id] of ids.entries()) expect(await store.seqsOf(id)).toContain(seqs[index]);
  });

  test("every event has a disposition and each route's verdict with its reason", async () => {
    const routes = [
      { name: "failures", match: { statuses: ["failed"] } },
      { name: "ours", match: { events: ["message.*"], tracked: true } },
    ];
    const { store } = await openWith(open, routes);
    const verdictsOf = async (seq: number) => {
      const event = await store.event(seq);
      return [
        event?.disposition,
        ...(event?.verdicts ?? []).map(([, verdict, reason]) => reason ?? verdict),
      ];
    };
    expect(await verdictsOf(await accept(store, { wamid: "a", status: "failed" }))).toEqual([
      "routed",
      "deliver",
      "park",
    ]);
    expect(await verdictsOf(await accept(store, { wamid: "a", status: "sent" }))).toEqual([
      "parked",
      "status",
      "park",
    ]);
    expect(await verdictsOf(await accept(store, { event: "contact.created" }))).toEqual([
      "filtered",
      "status",
      "event",
    ]);
    const ignoring = await openWith(open, routes, { unknown: "ignore" });
    const seq = await accept(ignoring.store, { wamid: "a", status: "sent" });
    expect(await ignoring.store.event(seq)).toMatchObject({ disposition: "ignored" });
  });

  test("stores quarantined bytes unchanged, each time they arrive", async () => {
    const subject = await openWith(open, twoRoutes);
    const body = Buffer.from([0, 0xff, 0xc3, 0x28]);
    const quarantined = { ...unreadable(anEvent(), "the body is not valid UTF-8"), body };
    const seqs = [];
    for (let n = 0; n < 2; n += 1) seqs.push((await subject.store.quarantine(quarantined)).seq);
    const store = await subject.reopen();
    expect(new Set(seqs).size).toBe(2);
    for (const seq of seqs) {
      expect(await store.event(seq)).toMatchObject({
        id: null,
        event: null,
        disposition: "quarantined",
        fault: "the body is not valid UTF-8",
        body,
        verdicts: [],
      });
      expect(await store.delivery(seq, "one")).toBeNull();
    }
  });

  test("derives a delivery's id from event and route, and delays first attempts as the route requires", async () => {
    const { store } = await openWith(open, [{ name: "slow", firstWait: 5_000 }]);
    const outcome = await store.accept(anEvent({ id: uuid }));
    expect(outcome).toMatchObject({ due: [{ route: "slow", at: start + 5_000 }] });
    expect(await store.delivery(outcome.seq, "slow")).toMatchObject({
      id: deliveryId("main", uuid as EventId, "slow"),
      nextAt: start + 5_000,
    });
    expect(await store.due("slow", start + 4_999, 10)).toEqual([]);
    expect(await store.nextDueAt("slow", start)).toBe(start + 5_000);
    expect(await store.due("slow", start + 5_000, 10)).toEqual([outcome.seq]);
  });

  test("returns a delivery's data unchanged after reopening", async () => {
    const subject = await openWith(open, twoRoutes);
    await subject.store.register(
      [{ account: "main", wamid: "w", id: "svc-1", reference: "order 1", metadata: { team: "a" } }],
      start,
    );
    const event = anEvent({
      id: uuid,
      wamid: "w",
      status: "delivered",
      source: "second",
      receivedAt: start + 7,
    });
    const { seq } = await subject.store.accept({
      ...event,
      headers: { "x-acme-signature": "sha256=00", "content-type": "text/json" },
    });
    const store = await subject.reopen();
    expect(await store.load("one", seq)).toMatchObject({
      route: "one",
      event: seq,
      account: "main",
      source: "second",
      eventId: uuid,
      kind: "message.status",
      origin: "webhook",
      receivedAt: start + 7,
      body: event.body,
      headers: { "x-acme-signature": "sha256=00", "content-type": "text/json" },
      attempts: 0,
      spent: 0,
      replays: 0,
      subject: {
        type: "message",
        key: "w",
        tracked: true,
        id: "svc-1",
        reference: "order 1",
        metadata: { team: "a" },
        previousStatus: null,
        status: "delivered",
        moved: true,
      },
    });
    expect(await store.load("one", seq + 1)).toBeNull();
    expect(await store.load("nowhere", seq)).toBeNull();
  });
}
