import fc from "fast-check";
import { expect, test } from "vitest";
import {
  createLive,
  createTexts,
  type LivePort,
  type LiveRow,
  liveStream,
} from "../../../src/inspect/live.ts";
import type { RelayEvent } from "../../../src/model/answers/events.ts";
import type { OverviewView } from "../../../src/model/overview.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import type { StoreReading } from "../../../src/store/read/reading.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

const start = Date.parse("2026-11-21T12:00:00Z");

/**
 * A store of events with the seqs 1, 2, …; each third one has failed. Counts how many rows were
 * read.
 */
function storeOf(count: number) {
  const store = { newest: count, reads: 0, isDown: false, wake: () => {} };
  const row = (seq: number) =>
    ({
      seq,
      status: seq % 3 === 0 ? "failed" : "sent",
      receivedAt: start,
      disposition: "routed",
    }) as unknown as LiveRow;
  const read = {
    eventBounds: () => {
      if (store.isDown) throw new StoreUnavailable("the store is down");
      return { oldest: 1, newest: store.newest };
    },
    listEvents: ({ after = 0, before = 0 }) => {
      const seqs = Array.from({ length: before - after - 1 }, (_, n) => before - 1 - n);
      store.reads += seqs.length;
      return seqs.map(row);
    },
    countDeliveries: () => new Map(),
  } as Pick<StoreReading, "eventBounds" | "listEvents" | "countDeliveries">;
  return { store, read };
}

function liveOver(count: number) {
  const { store, read } = storeOf(count);
  const clock = createManualClock(start);
  const overview = {
    at: start,
    attention: [],
    figures: {},
    destinations: [],
    relay: {},
    goodSince: start,
  } as unknown as OverviewView;
  const shown = { overview };
  const live = createLive({
    read,
    clock,
    overview: async () => shown.overview,
    slice: async (run) => run(),
    onStored(wake) {
      store.wake = wake;
      return () => {};
    },
  });
  return { store, clock, live, shown };
}

const all = null;
const every = () => true;
const seqsOf = ({ rows }: { readonly rows: readonly LiveRow[] }) => rows.map(({ seq }) => seq);

test("leaves out no event that it does not count, whoever else follows", async () => {
  const listener = fc.record({
    seq: fc.nat(9_000),
    matches: fc.constantFrom(all, every, (row: LiveRow) => row.status === "failed"),
  });
  const step = fc.record({ stored: fc.nat(800), who: fc.nat(3) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(listener, { minLength: 1, maxLength: 4 }),
      fc.array(step, { maxLength: 40 }),
      async (given, steps) => {
        const { store, live } = liveOver(9_000);
        const listeners = given.map(({ seq, matches }) => ({ position: seq, matches }));
        for (const { stored, who } of steps) {
          store.newest += stored;
          const follower = listeners[who % listeners.length] as (typeof listeners)[0];
          const { position, matches } = follower;
          const page = await live.next(position, matches);
          const seqs = seqsOf(page);
          const range = Array.from({ length: page.through - position }, (_, n) => position + 1 + n);
          if (page.skipped === 0) {
            const wanted =
              matches === null || matches === every ? range : range.filter((seq) => seq % 3 === 0);
            expect(seqs).toEqual(wanted);
          }
          if (matches === null || matches === every)
            expect(seqs.length + page.skipped).toBe(range.length);
          expect(
            seqs.every((seq, index) => seq > (seqs[index - 1] ?? position) && seq <= page.through),
          ).toBe(true);
          expect(page.more).toBe(page.through < store.newest);
          follower.position = page.through;
        }
      },
    ),
  );
});

test("reads what it shows, and the rest only for a filter", async () => {
  const { store, live } = liveOver(1_000);
  let position = 1_000;
  for (let each = 0; each < 10; each += 1) {
    store.newest += 2_000;
    const page = await live.next(position, all);
    expect(page).toMatchObject({ skipped: 1_950, through: store.newest });
    position = page.through;
  }
  expect(store.reads).toBe(500);
  store.newest += 1_000;
  await live.next(position, ({ seq }) => seq === 0);
  expect(store.reads).toBe(1_500);
});

test("reads the store once for all listeners", async () => {
  const { store, live } = liveOver(1_000);
  await live.next(1_000, all);
  store.newest = 1_040;
  const pages = await Promise.all(Array.from({ length: 20 }, () => live.next(1_000, all)));
  for (const page of pages) expect(seqsOf(page)).toHaveLength(40);
  expect(store.reads).toBe(40);
});

test("skips to the newest events when too many match, and counts the others", async () => {
  const { store, live } = liveOver(10);
  await live.next(10, all);
  store.newest = 1_010;
  const page = await live.next(10, all);
  expect(page).toMatchObject({ skipped: 950, through: 1_010, more: false });
  expect(seqsOf(page)).toEqual(Array.from({ length: 50 }, (_, n) => 961 + n));
  // Another one that wants fewer of them skips nothing.
  const failed = await live.next(10, ({ status, seq }) => status === "failed" && seq > 900);
  expect(failed).toMatchObject({ skipped: 0, through: 1_010, more: false });
  expect(failed.rows).toHaveLength(36);
});

test("reads again for one that is behind, and skips when it is too far behind", async () => {
  const { live } = liveOver(20_000);
  await live.next(20_000, all);
  const near = await live.next(19_000, ({ status }) => status === "failed");
  expect(near).toMatchObject({ skipped: 0, more: true });
  expect(seqsOf(near)[0]).toBe(19_002);
  expect(await live.next(1, all)).toMatchObject({ skipped: 19_949, through: 20_000, more: false });
  const far = await live.next(1, every);
  expect(far).toMatchObject({ skipped: 17_999, through: 18_050, more: true });
  expect(seqsOf(far)[0]).toBe(18_001);
});

test("continues at the end of a store that lost events", async () => {
  const { store, live } = liveOver(100);
  await live.next(90, all);
  store.newest = 5;
  expect(await live.next(100, all)).toMatchObject({ rows: [], through: 5 });
  store.newest = 6;
  expect(seqsOf(await live.next(5, all))).toEqual([6]);
});

test("sends nothing while the store is unavailable, and everything afterwards", async () => {
  const { store, live } = liveOver(1);
  await live.next(1, all);
  store.newest = 3;
  store.isDown = true;
  expect(await live.next(1, all)).toEqual({ rows: [], skipped: 0, through: 1, more: false });
  store.isDown = false;
  expect(seqsOf(await live.next(1, all))).toEqual([2, 3]);
});

/** The stream for one client. The clock stands still unless `pass` moves it. */
function streamOver(port: LivePort, position: number | null) {
  const [stopping, gone] = [new AbortController(), new AbortController()];
  const client = { isAllowed: true, isMasked: false };
  const stream = liveStream({
    port,
    start: position,
    matches: all,
    texts: createTexts(),
    isMasked: () => client.isMasked,
    allowed: async () => client.isAllowed,
    stopping: stopping.signal,
    gone: gone.signal,
  });
  const next = async () => (await stream.next()).value ?? "over";
  return { next, client, stopping };
}

const eventsIn = (text: string): { data: RelayEvent[]; skipped: number } =>
  JSON.parse(/^event: events\ndata: (.*)$/m.exec(text)?.[1] ?? "null");

/** Moves the clock until the promise has resolved. */
async function pass<T>(
  clock: ReturnType<typeof createManualClock>,
  promise: Promise<T>,
  stepMs = 50,
): Promise<{ value: T; tookMs: number }> {
  let isDone = false;
  const done = promise.finally(() => {
    isDone = true;
  });
  const from = clock.now();
  for (let n = 0; n < 1_000 && !isDone; n += 1) {
    await new Promise(setImmediate);
    if (!isDone) await clock.advance(stepMs);
  }
  return { value: await done, tookMs: clock.now() - from };
}

test("sends the overview at once, when it changes, and every 15 s", async () => {
  const { live, clock, shown } = liveOver(7);
  const { next } = streamOver(live, 7);
  const first = await next();
  expect(first).toMatch(/^retry: 2000\nid: 7\nevent: overview\ndata: \{/);
  // Another time alone is no change.
  shown.overview = { ...shown.overview, at: start + 1 };
  expect((await pass(clock, next())).tookMs).toBe(15_000);
  shown.overview = { ...shown.overview, goodSince: start + 5_000 };
  const changed = await pass(clock, next());
  expect(changed.tookMs).toBeLessThanOrEqual(1_050);
  expect(changed.value).toContain('"goodSince":"2026-11-21T12:00:05.000Z"');
});

test("sends events four times a second, with the seq to continue after", async () => {
  const { store, live, clock } = liveOver(0);
  const { next } = streamOver(live, 0);
  await next();
  store.newest = 120;
  const following = next();
  store.wake();
  const first = await pass(clock, following);
  expect(first.value).toMatch(/^id: 50\n/);
  const [second, third] = [await pass(clock, next()), await pass(clock, next())];
  expect([second.tookMs, third.tookMs].every((ms) => ms >= 200)).toBe(true);
  expect([first, second, third].map(({ value }) => eventsIn(value).data.length)).toEqual([
    50, 50, 20,
  ]);
});
