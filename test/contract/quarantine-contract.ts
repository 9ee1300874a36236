import { expect, test } from "vitest";
import type { ReleasedEvent } from "../../src/store/port.ts";
import type { ContractStore, OpenSubject } from "./contract-store.ts";
import { accept, delivered, openWith, settle } from "./contract-tools.ts";
import { anEvent, type EventParts, start, startOfWalk, unreadable } from "./store-events.ts";

const routes = [{ name: "all" }];
const keep = {
  events: 1_000,
  ignored: 1_000,
  deliveries: 1_000,
  messages: 1_000,
  history: 10 ** 11,
};

/** Quarantines the bytes of an event; gives its seq and the event as it would be released. */
async function quarantine(
  store: ContractStore,
  parts: EventParts = {},
): Promise<{ seq: number; event: ReleasedEvent }> {
  const event = anEvent(parts);
  const { seq } = await store.quarantine(unreadable(event));
  return { seq, event: { ...event, receivedAt: start + 10_000, secret: null, releaseOf: seq } };
}

export function quarantineContract(open: OpenSubject): void {
  test("a released body becomes one event with a delivery for each route, and the sums balance", async () => {
    const { store } = await openWith(open, routes);
    const { seq, event } = await quarantine(store, { wamid: "w", status: "sent" });
    expect(await store.release(event)).toMatchObject({ result: "accepted" });
    const [made] = await store.seqsOf(event.envelope.id);
    expect(made).toBeGreaterThan(seq);
    expect(await store.event(seq)).toMatchObject({
      id: null,
      disposition: "released",
      releasedAs: made,
      releasedFrom: null,
      fault: "not understood",
      secret: "fingerprint",
    });
    expect(await store.event(made as number)).toMatchObject({
      id: event.envelope.id,
      disposition: "routed",
      releasedAs: null,
      releasedFrom: seq,
      fault: null,
      secret: null,
      body: event.body,
      duplicates: 0,
    });
    expect((await store.message("main", "w"))?.status).toBe("sent");
    expect(await store.due("all", start + 20_000, 10)).toEqual([made]);
    expect(await store.audit(start + 20_000)).toMatchObject({
      balanced: true,
      events: { received: 2, quarantined: 0, released: 1, routed: 1, unaccounted: 0 },
    });
  });

  test("releasing again, also after a restart, adds no event", async () => {
    const subject = await openWith(open, routes);
    const { seq, event } = await quarantine(subject.store, { wamid: "w" });
    await subject.store.release(event);
    expect(await subject.store.release(event)).toBeNull();
    const store = await subject.reopen();
    expect(await store.release(event)).toBeNull();
    expect(await store.quarantined(seq)).toBeNull();
    expect((await store.findQuarantined({}, startOfWalk(start + 60_000), 10)).found).toEqual([]);
    const made = await store.seqsOf(event.envelope.id);
    expect(made.length).toBe(1);
    expect(await store.event(made[0] as number)).toMatchObject({ duplicates: 0 });
    expect((await store.due("all", start + 20_000, 10)).length).toBe(1);
  });

  test("concurrent releases make one event", async () => {
    const { store } = await openWith(open, routes);
    const { seq, event } = await quarantine(store, { wamid: "w" });
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => store.release(event)));
    expect(outcomes.filter((outcome) => outcome?.result === "accepted").length).toBe(1);
    const made = await store.seqsOf(event.envelope.id);
    expect(made.length).toBe(1);
    expect(await store.event(seq)).toMatchObject({ disposition: "released", releasedAs: made[0] });
    expect(await store.due("all", start + 20_000, 10)).toEqual(made);
    expect((await store.audit(start + 20_000)).balanced).toBe(true);
  });

  test("retention deletes a released body like any event", async () => {
    const { store } = await openWith(open, routes);
    const { seq, event } = await quarantine(store, { wamid: "w" });
    await store.release(event);
    const [made] = (await store.seqsOf(event.envelope.id)) as [number];
    await settle(store, "all", made, delivered, { at: start + 10_000 });
    const now = start + 100_000;
    await accept(store, { receivedAt: now });
    for (let steps = 0; steps < 50 && !(await store.purge(now, keep, 100)).done; steps += 1);
    expect([await store.event(seq), await store.event(made)]).toEqual([null, null]);
    expect((await store.audit(now)).balanced).toBe(true);
  });
}
