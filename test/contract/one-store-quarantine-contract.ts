import { afterEach, beforeEach, expect, test } from "vitest";
import type { ReleasedEvent, ReplayCursor } from "../../src/store/port.ts";
import { codeOf } from "../../src/store/schema/codes.ts";
import { events, queue, queueState, subjects } from "../../src/store/schema/tables.ts";
import {
  findQuarantined,
  type QuarantinedFound,
  type QuarantineFilter,
} from "../../src/store/work/quarantine.ts";
import { type OneStore, type OpenStore, settlementOf } from "./one-store.ts";
import {
  anEvent,
  type EventParts,
  rulesFor,
  start,
  startOfWalk,
  unreadable,
} from "./store-events.ts";

const rules = rulesFor([{ name: "all" }]);

export function oneStoreQuarantineContract(open: OpenStore): void {
  let store: OneStore;
  beforeEach(async () => {
    store = await open(rules);
  });
  afterEach(() => store[Symbol.asyncDispose]());

  /** Quarantines the bytes of an event; gives its seq and the event as it would be released. */
  async function quarantine(
    parts: EventParts = {},
  ): Promise<{ seq: number; event: ReleasedEvent }> {
    const event = anEvent(parts);
    const [{ seq } = { seq: 0 }] = await store.send(
      ({ quarantine }) => quarantine,
      [unreadable(event)],
    );
    return { seq, event: { ...event, receivedAt: start + 10_000, secret: null, releaseOf: seq } };
  }
  const release = async (...released: readonly ReleasedEvent[]) =>
    store.send((commands) => commands.release, released);
  const eventOf = async (seq: number) => (await store.rows(events)).find((row) => row.seq === seq);

  async function walk(filter: QuarantineFilter, limit: number): Promise<number[]> {
    const seqs: number[] = [];
    let place: ReplayCursor | null = startOfWalk(start + 60_000);
    while (place !== null) {
      const step: QuarantinedFound = await store.read(findQuarantined(filter, place, limit));
      seqs.push(...step.found.map(({ seq }) => seq));
      place = step.cursor;
    }
    return seqs;
  }

  test("the next release finishes one that stopped after its event was accepted", async () => {
    const { seq, event } = await quarantine({ wamid: "w" });
    const [first] = await store.accept([event]);
    expect(await release(event)).toEqual([
      { result: "duplicate", seq: first?.seq, conflict: false },
    ]);
    expect(await eventOf(seq)).toMatchObject({
      disposition: codeOf.disposition.released,
      release: first?.seq,
    });
    expect(await eventOf(first?.seq ?? 0)).toMatchObject({ release: seq });
  });

  test("a body whose event id is known makes no event, and names the existing one", async () => {
    const [known] = await store.accept([anEvent({ id: "known", wamid: "w", status: "read" })]);
    const { seq, event } = await quarantine({ id: "known", wamid: "w", status: "sent" });
    expect(await release(event)).toEqual([
      { result: "duplicate", seq: known?.seq, conflict: true },
    ]);
    expect(await eventOf(seq)).toMatchObject({
      disposition: codeOf.disposition.released,
      release: known?.seq,
    });
    expect(await eventOf(known?.seq ?? 0)).toMatchObject({ duplicates: 1, release: null });
  });

  test("a released event goes out after earlier ones, and moves no status backwards", async () => {
    const { event } = await quarantine({ wamid: "w", status: "sent" });
    await store.accept([anEvent({ wamid: "w", status: "read" })]);
    const [made] = await release(event);
    expect((await store.rows(queue)).map(({ event, state }) => [event, state])).toEqual([
      [2, queueState.waiting],
      [3, queueState.held],
    ]);
    const [later] = await store.due("all", start + 1);
    expect(
      await store.settle([settlementOf(later as never, "delivered", start + 1)]),
    ).toMatchObject([{ released: { event: made?.seq } }]);
    expect(await store.rows(subjects)).toMatchObject([{ status: "read" }]);
    expect(await eventOf(made?.seq ?? 0)).toMatchObject({ moved: 0 });
  });

  test("finds each body once, in the order received, for any step size", async () => {
    const seqs: number[] = [];
    // Several of one millisecond, more than fit into a step.
    for (let n = 0; n < 14; n += 1) {
      seqs.push(
        (
          await quarantine({
            receivedAt: start + Math.floor(n / 6),
            source: n % 2 === 0 ? "main" : "other",
          })
        ).seq,
      );
      await store.accept([anEvent()]);
    }
    for (const limit of [1, 2, 3, 5, 100]) expect(await walk({}, limit)).toEqual(seqs);
    expect(await walk({ source: "other" }, 2)).toEqual(seqs.filter((_, n) => n % 2 === 1));
    expect(await walk({ source: "unknown" }, 2)).toEqual([]);
    expect(await walk({ from: start + 1, to: start + 2 }, 2)).toEqual(seqs.slice(6, 12));
  });

  test("an event whose id has a NUL character is stored, and known again", async () => {
    const event = anEvent({ id: "with\0inside", wamid: "w" });
    expect(await store.accept([event, event])).toMatchObject([
      { result: "accepted" },
      { result: "duplicate" },
    ]);
  });
}
