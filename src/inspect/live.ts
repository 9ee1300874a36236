import type { LivePage, LivePort, LiveRow, Matches } from "../control/live.ts";
import type { Clock } from "../model/clock.ts";
import type { StoreReading } from "../store/read/reading.ts";
import { noDeliveries } from "../store/views.ts";
import { answerOr } from "./count.ts";
import type { Listening } from "./listening.ts";

interface LiveParts {
  readonly read: Pick<StoreReading, "events" | "deliveries">;
  readonly onStored: LivePort["onStored"];
  readonly overview: LivePort["overview"];
  readonly clock: Clock;
  readonly slice: Listening["slice"];
}

/** Seqs in one read, which blocks the thread for a few milliseconds. */
const windowSeqs = 50;
/** Rows kept for all listeners. */
const mostKept = 2_000;
/** Rows that nobody asked for in this time are dropped: after them, many may have been stored. */
const keptForMs = 10_000;
/** A listener that is further behind skips events. */
const mostBehind = 5_000;
/** Matching rows in one page. A listener that has more than `mostWaiting` to come gets only the newest of them. */
const pageRows = 50;
const mostWaiting = 500;

export function createLive({ read, onStored, overview, clock, slice }: LiveParts): LivePort {
  let kept: LiveRow[] = [];
  let from = 0;
  let through = 0;
  let usedAt = Number.NEGATIVE_INFINITY;
  /** When a listener with a filter asked last. */
  let filteredAt = Number.NEGATIVE_INFINITY;
  /** Null while the store is unavailable. */
  let reading: Promise<number | null> | null = null;

  const newest = async () => (await read.events.bounds())?.newest ?? 0;

  /** Oldest first. */
  async function rowsBetween(after: number, last: number): Promise<LiveRow[]> {
    const events = await slice(() => read.events.list({ after, before: last + 1, limit: last - after }));
    if (events.length === 0) return [];
    const counts = await slice(() => read.deliveries.counts(events.map(({ seq }) => seq)));
    return events.map((event) => ({ ...event, ...(counts.get(event.seq) ?? noDeliveries) })).toReversed();
  }

  /** Reads what was stored since the last call; without a filter, only what is shown. Resolves with the newest seq. */
  async function readOn(position: number, matches: Matches): Promise<number> {
    const last = await newest();
    const isFiltered = clock.now() - filteredAt <= keptForMs;
    const begin = beginOf(position, matches, last);
    // The first listener in a while begins at its own position. A store that lost events begins again.
    const isIdle = clock.now() - usedAt > keptForMs;
    usedAt = clock.now();
    if (isIdle || last - through > mostKept || last < through) {
      kept = [];
      from = Math.min(last, Math.max(position, last - mostKept));
      through = from;
    }
    const isLeftOut = isFiltered ? begin < from && last - begin <= mostKept : begin > through;
    if (isLeftOut) {
      kept = [];
      from = begin;
      through = begin;
    }
    const target = isFiltered ? last : Math.min(last, begin + pageRows);
    while (through < target) {
      const end = Math.min(last, through + windowSeqs);
      kept.push(...(await rowsBetween(through, end)));
      through = end;
    }
    const dropped = kept.splice(0, Math.max(0, kept.length - mostKept)).at(-1);
    from = dropped?.seq ?? from;
    return last;
  }

  function pageOf(rows: readonly LiveRow[], matches: Matches, end: number, unread: number): LivePage {
    const matching = matches === null ? rows : rows.filter(matches);
    if (matching.length > mostWaiting) {
      return { rows: matching.slice(-pageRows), skipped: unread + matching.length - pageRows, through: end, more: false };
    }
    const page = matching.slice(0, pageRows);
    const more = matching.length > page.length;
    return { rows: page, skipped: unread, through: more ? (page.at(-1)?.seq ?? end) : end, more };
  }

  return {
    overview,
    newest,
    onStored,
    now: clock.now,
    after: clock.after,
    async next(after, matches) {
      if (matches !== null) filteredAt = clock.now();
      reading ??= answerOr(() => readOn(after, matches), null).finally(() => {
        reading = null;
      });
      const last = await reading;
      if (last === null) return { rows: [], skipped: 0, through: after, more: false };
      const begin = beginOf(after, matches, last);
      if (begin >= through) return { rows: [], skipped: 0, through: Math.min(after, last), more: after < last };
      if (begin >= from) {
        const page = pageOf(kept.slice(kept.findLastIndex(({ seq }) => seq <= begin) + 1), matches, through, begin - after);
        return { ...page, more: page.more || through < last };
      }
      if (from - begin > mostBehind) return pageOf(kept, matches, through, from - after);
      const end = Math.min(from, begin + windowSeqs);
      return { ...pageOf(await rowsBetween(begin, end), matches, end, begin - after), more: true };
    },
  };
}

/** Where a listener without a filter goes on: every event matches, so those to leave out need not be read. */
function beginOf(after: number, matches: Matches, last: number): number {
  return matches === null && last - after > mostWaiting ? last - pageRows : Math.min(after, last);
}
