import { afterEach, beforeEach, expect, test } from "vitest";
import type { QuarantinedBody, ReceivedEvent } from "../../src/model/event.ts";
import type { EventId } from "../../src/model/ids.ts";
import { codeOf } from "../../src/store/schema/codes.ts";
import { events, ids, subjects } from "../../src/store/schema/tables.ts";
import { createRetention } from "../../src/store/work/retention.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import { anEvent, type EventParts, rulesFor, start, unreadable } from "./store-events.ts";

const rules = rulesFor([{ name: "all" }]);
const day = 86_400_000;
const keep = { events: day, ignored: day, deliveries: day, messages: day, history: 400 * day };
const uuid = (n: number): EventId =>
  `00000000-0000-8000-8000-${String(n).padStart(12, "0")}` as EventId;

/** Events whose ids a format derived. */
export function oneStoreDerivedContract(open: OpenStore): void {
  let store: OneStore;
  beforeEach(async () => {
    store = await open(rules);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  const derived = (n: number, parts: EventParts = {}): ReceivedEvent => ({
    ...anEvent({ id: uuid(n), ...parts }),
    format: "meta",
  });
  const body = (
    n: number,
    disposition: "quarantined" | "unassigned",
    receivedAt = start,
  ): QuarantinedBody => {
    return { ...unreadable(derived(n, { receivedAt })), account: "", id: uuid(n), disposition };
  };
  const quarantine = (...bodies: QuarantinedBody[]) =>
    store.send((commands) => commands.quarantine, bodies);
  const dispositions = async () =>
    (await store.rows(events)).map(({ disposition, duplicates }) => [disposition, duplicates]);
  async function purge(now: number): Promise<void> {
    const once = createRetention(store.run);
    for (let done = false; !done; ) ({ done } = await once(now, keep, 100));
  }

  test("an id is known whatever its account and bytes are", async () => {
    expect(await store.accept([derived(1, { wamid: "w" })])).toMatchObject([
      { result: "accepted", seq: 1 },
    ]);
    const again = derived(1, { wamid: "w", account: "other", data: { more: true } });
    expect(await store.accept([again, derived(2), again])).toEqual([
      { result: "duplicate", seq: 1, conflict: false },
      expect.objectContaining({ result: "accepted", seq: 2 }),
      { result: "duplicate", seq: 1, conflict: false },
    ]);
    expect(
      (await store.rows(events)).map(({ duplicates, conflicts, format }) => [
        duplicates,
        conflicts,
        format,
      ]),
    ).toEqual([
      [2, 0, "meta"],
      [0, 0, "meta"],
    ]);
    expect(await store.rows(subjects)).toMatchObject([{ account: "main" }]);
  });

  test("an id outlives its event by a week, and no longer", async () => {
    await store.accept([derived(1), derived(2, { receivedAt: start + 3 * day })]);
    const due = await store.due("all", start + 3 * day);
    await store.settle(
      due.map((delivery) => settlementOf(delivery, "delivered", delivery.receivedAt)),
    );
    expect(await store.rows(ids)).toEqual([]);
    await purge(start + 7 * day);
    expect(await store.rows(events)).toHaveLength(1);
    expect(await store.rows(ids)).toMatchObject([{ seq: 1, until: start + 8 * day }]);
    expect(await store.accept([derived(1, { account: "other" })])).toMatchObject([
      { result: "duplicate", seq: 1 },
    ]);
    await purge(start + 8 * day + 1);
    expect(await store.rows(ids)).toEqual([]);
    expect(await store.accept([derived(1, { receivedAt: start + 9 * day })])).toMatchObject([
      { result: "accepted", seq: 3 },
    ]);
  });

  test("an ignored event that is deleted early is not made again", async () => {
    await using unrouted = await open(rulesFor([]));
    await unrouted.accept([derived(1), derived(2)]);
    const purge = createRetention(unrouted.run);
    while (!(await purge(start + 2 * day, keep, 100)).done);
    expect(await unrouted.rows(events)).toMatchObject([{ seq: 2 }]);
    expect(await unrouted.accept([derived(1, { receivedAt: start + 2 * day })])).toMatchObject([
      { result: "duplicate", seq: 1 },
    ]);
  });

  test("a body that is no event is stored once, and takes no number again", async () => {
    expect(
      await quarantine(body(1, "quarantined"), body(2, "unassigned"), body(1, "quarantined")),
    ).toEqual([
      { result: "quarantined", seq: 1 },
      { result: "quarantined", seq: 2 },
      { result: "duplicate", seq: 1 },
    ]);
    expect(await quarantine(body(2, "unassigned"), body(3, "unassigned"))).toEqual([
      { result: "duplicate", seq: 2 },
      { result: "quarantined", seq: 3 },
    ]);
    const { quarantined, unassigned } = codeOf.disposition;
    expect(await dispositions()).toEqual([
      [quarantined, 1],
      [unassigned, 1],
      [unassigned, 0],
    ]);
  });

  test("an unassigned event is released once under its id", async () => {
    await quarantine(body(1, "unassigned"));
    const event = { ...derived(1, { account: "main" }), releaseOf: 1 };
    const release = () => store.send((commands) => commands.release, [event]);
    expect(await release()).toMatchObject([{ result: "accepted", seq: 2 }]);
    expect(await release()).toEqual([null]);
    expect(await store.accept([derived(1)])).toEqual([
      { result: "duplicate", seq: 2, conflict: false },
    ]);
    const { released, routed } = codeOf.disposition;
    expect(await dispositions()).toEqual([
      [released, 0],
      [routed, 1],
    ]);
  });

  test("of several identical batches at once, one makes the events", async () => {
    const batch = Array.from({ length: 20 }, (_, n) => derived(n + 1, { wamid: `w${n % 3}` }));
    const elsewhere = batch.toReversed().map((event) => ({ ...event, account: "other" }));
    const outcomes = (
      await Promise.all([
        store.accept(batch),
        store.accept(batch.toReversed()),
        store.accept(elsewhere),
      ])
    ).flat();
    expect(outcomes.filter(({ result }) => result === "accepted")).toHaveLength(20);
    expect(await store.rows(events)).toHaveLength(20);
  });
}
