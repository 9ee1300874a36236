import type { LivePage, LivePort, LiveRow, Matches } from "../control/live.ts";
import type { Clock } from "../model/clock.ts";
import type { StoreReading } from "../store/read/reading.ts";
import { answerOr } from "./count.ts";
import type { Listening } from "./listening.ts";
import { withCounts } from "./reading.ts";

interface LiveParts {
  readonly read: Pick<StoreReading, "eventBounds" | "listEvents" | "countDeliveries">;
  readonly onStored: LivePort["onStored"];
  readonly overview: LivePort["overview"];
  readonly clock: Clock;
  readonly slice: Listening["slice"];
}

/** Seqs in one read, which blocks the thread for a few milliseconds. */
const windowSeqs = 50;
/** Windows kept, so that listeners at the same position share what was read. */
const mostWindows = 40;
/** Matching rows in one page. */
const pageRows = 50;
/** A listener that is further behind skips events: to the newest page, or with a filter to the newest 2,000 events. */
const behind = { unfiltered: { most: 500, next: pageRows }, filtered: { most: 5_000, next: 2_000 } } as const;

export function createLive({ read, onStored, overview, clock, slice }: LiveParts): LivePort {
  const windows = new Map<string, Promise<LiveRow[]>>();
  let newestSeen = 0;

  async function newest(): Promise<number> {
    const seq = (await read.eventBounds())?.newest ?? 0;
    // A store that lost events gives their seqs to others.
    if (seq < newestSeen) windows.clear();
    newestSeen = seq;
    return seq;
  }

  /** Oldest first. */
  async function rowsBetween(after: number, last: number): Promise<LiveRow[]> {
    const events = await slice(() => read.listEvents({ after, before: last + 1, limit: last - after }));
    return (await slice(() => withCounts(read, events))).toReversed();
  }

  function windowOf(after: number, last: number): Promise<LiveRow[]> {
    const key = `${after} ${last}`;
    const known = windows.get(key);
    if (known !== undefined) return known;
    const rows = rowsBetween(after, last);
    windows.set(key, rows);
    rows.catch(() => windows.delete(key));
    for (const oldest of [...windows.keys()].slice(0, -mostWindows)) windows.delete(oldest);
    return rows;
  }

  async function pageAfter(after: number, matches: Matches): Promise<LivePage> {
    const last = await newest();
    const { most, next } = behind[matches === null ? "unfiltered" : "filtered"];
    const begin = last - after > most ? last - next : Math.min(after, last);
    const found: LiveRow[] = [];
    let through = begin;
    while (through < last && found.length < pageRows) {
      const end = Math.min(last, through + windowSeqs);
      const rows = await windowOf(through, end);
      found.push(...(matches === null ? rows : rows.filter(matches)));
      through = end;
    }
    const rows = found.slice(0, pageRows);
    if (rows.length < found.length) through = rows.at(-1)?.seq ?? through;
    return { rows, skipped: Math.max(0, begin - after), through, more: through < last };
  }

  return {
    overview,
    newest,
    onStored,
    now: clock.now,
    after: clock.after,
    next: (after, matches) => answerOr(() => pageAfter(after, matches), { rows: [], skipped: 0, through: after, more: false }),
  };
}
