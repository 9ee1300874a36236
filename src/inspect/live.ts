import type { FastifyInstance } from "fastify";
import type { z } from "zod";
import type { Handlers } from "../control/endpoint.ts";
import {
  createStreams,
  message,
  noRoom,
  type StreamEnds,
  type StreamPort,
  streamTurns,
} from "../control/sse.ts";
import { type ListedEventView, listedEventSchema } from "../model/answers/events.ts";
import type { Clock } from "../model/clock.ts";
import { type OverviewView, overviewSchema } from "../model/overview.ts";
import type { Limited, liveQuery } from "../model/queries.ts";
import { maskAnswer, toAnswer } from "../model/view.ts";
import type { StoreReading } from "../store/read/reading.ts";
import { answerOr } from "./count.ts";
import type { Listening } from "./listening.ts";
import { withCounts } from "./reading.ts";

export type LiveRow = ListedEventView;
export type Matches = ((row: LiveRow) => boolean) | null;

interface LiveParts {
  readonly read: Pick<StoreReading, "eventBounds" | "listEvents" | "countDeliveries">;
  readonly onStored: StreamPort["onStored"];
  readonly overview: () => Promise<OverviewView>;
  readonly clock: Clock;
  readonly slice: Listening["slice"];
}

/** Seqs in one read, which blocks the thread for a few milliseconds. */
const windowSeqs = 50;
/** Windows kept, so that listeners at the same position share what was read. */
const mostWindows = 40;
/** Matching rows in one page. */
const pageRows = 50;
/**
 * A listener that is further behind skips events: to the newest page, or with a filter to the
 * newest 2,000 events.
 */
const behind = {
  unfiltered: { most: 500, next: pageRows },
  filtered: { most: 5_000, next: 2_000 },
} as const;

export type LivePort = ReturnType<typeof createLive>;

/** Times are unix ms. */
export function createLive({ read, onStored, overview, clock, slice }: LiveParts) {
  const windows = new Map<string, Promise<LiveRow[]>>();
  let newestSeen = 0;

  /** The seq of the newest event; 0: there is none. */
  async function newest(): Promise<number> {
    const seq = (await read.eventBounds())?.newest ?? 0;
    // A store that lost events gives their seqs to others.
    if (seq < newestSeen) windows.clear();
    newestSeen = seq;
    return seq;
  }

  /** Oldest first. */
  async function rowsBetween(after: number, last: number): Promise<LiveRow[]> {
    const events = await slice(() =>
      read.listEvents({ after, before: last + 1, limit: last - after }),
    );
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

  async function pageAfter(after: number, matches: Matches) {
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
    /**
     * `skipped`: events left out before or among the rows. `through`: the seq up to which all was
     * read.
     */
    next: (after: number, matches: Matches) =>
      answerOr(() => pageAfter(after, matches), {
        rows: [],
        skipped: 0,
        through: after,
        more: false,
      }),
  };
}

type LiveFilter = Omit<z.infer<typeof liveQuery>, "tail">;

/**
 * Each costs a connection and a message; more mean a client that does not close its connections.
 */
const mostConnections = 100;
export function createLiveHandlers(app: FastifyInstance, port: LivePort) {
  const streams = createStreams(app, port);
  const texts = createTexts();
  return {
    async live({ tail = false, "last-event-id": lastId, ...filter }, context) {
      const start = tail ? await startOf(lastId, port) : null;
      streams.refuseWhileStopping();
      if (streams.size() >= mostConnections) throw noRoom();
      const isMasked = () => context.request.isMasked;
      const parts = {
        port,
        start,
        matches: matcherOf(filter),
        hasOverview: filter.accounts === undefined,
        texts,
        isMasked,
      };
      return streams.send(context, (ends) => liveStream({ ...parts, ...ends }));
    },
  } satisfies Partial<Handlers>;
}

/** A store that lost events continues with smaller seqs. */
async function startOf(given: string | undefined, port: LivePort): Promise<number> {
  const newest = await port.newest();
  return given ? Math.min(Number(given), newest) : newest;
}

function matcherOf({ accounts, ...filter }: LiveFilter & Limited): Matches {
  const wanted = Object.entries(filter).filter(([, value]) => value !== undefined) as [
    keyof LiveFilter,
    string,
  ][];
  if (wanted.length === 0 && accounts === undefined) return null;
  return (row) =>
    (accounts === undefined || accounts.includes(row.account)) &&
    wanted.every(([field, value]) => row[field] === value);
}

interface LiveStreamParts extends StreamEnds {
  readonly port: LivePort;
  /** The seq after which events are sent; null: none are. */
  readonly start: number | null;
  readonly matches: Matches;
  readonly texts: Texts;
  /** False for a token limited to accounts: the overview is that of the whole relay. */
  readonly hasOverview?: boolean;
  readonly isMasked: () => boolean;
}

/** In its place, so that a client notices a dead connection. */
const noOverview = { facts: "", text: ": still here\n\n" };
/** Between two looks at the overview and the token. */
const lookEveryMs = 1_000;
/** The overview is sent at least this often, so that a client notices a dead connection. */
const overviewEveryMs = 15_000;
const eventsEveryMs = 250;
/**
 * Between two reads that found nothing to send, while there is more to read or a worker plans it.
 */
const catchUpEveryMs = 50;

export async function* liveStream(parts: LiveStreamParts): AsyncGenerator<string, void> {
  const { port, start, matches, texts, hasOverview = true, isMasked, allowed, ...ends } = parts;
  let position = start;
  let lookedAt = Number.NEGATIVE_INFINITY;
  let overviewAt = Number.NEGATIVE_INFINITY;
  let eventsAt = Number.NEGATIVE_INFINITY;
  let shown = "";
  let skipped = 0;
  let prefix = "retry: 2000\n";

  yield* streamTurns(
    start === null ? { ...port, onStored: () => () => {} } : port,
    ends,
    async () => {
      let text = "";
      let rows: readonly LiveRow[] | null = null;
      let isBehind = false;
      if (position !== null && port.now() - eventsAt >= eventsEveryMs) {
        const page = await port.next(position, matches);
        position = page.through;
        skipped += page.skipped;
        isBehind = page.more;
        if (page.rows.length > 0 || (skipped > 0 && !page.more)) rows = page.rows;
      }
      const isLook = port.now() - lookedAt >= lookEveryMs;
      // Before each message: the settings may have changed since the last one.
      if ((isLook || rows !== null) && !(await allowed()))
        return { text, bye: "the token or session is no longer valid", nextAt: 0 };
      if (rows !== null) {
        text += texts.events(rows, isMasked(), skipped, position ?? 0);
        skipped = 0;
        eventsAt = port.now();
      }
      if (isLook) {
        const overview = hasOverview ? texts.overview(await port.overview()) : noOverview;
        lookedAt = port.now();
        if (overview.facts !== shown || lookedAt - overviewAt >= overviewEveryMs) {
          shown = overview.facts;
          overviewAt = lookedAt;
          // With the position, so that a reconnect need not search again what the filter left out.
          text += `${prefix}${position === null ? "" : `id: ${position}\n`}${overview.text}`;
          prefix = "";
        }
      }
      const caughtUpAt = isBehind && text === "" ? port.now() + catchUpEveryMs : 0;
      return {
        text,
        nextAt: isBehind ? 0 : lookedAt + lookEveryMs,
        notBefore: Math.max(eventsAt + eventsEveryMs, caughtUpAt),
      };
    },
  );
}

type Texts = ReturnType<typeof createTexts>;

export function createTexts() {
  const clear = new WeakMap<LiveRow, string>();
  const masked = new WeakMap<LiveRow, string>();
  let last: { readonly view: OverviewView; readonly facts: string; readonly text: string } | null =
    null;

  function rowText(row: LiveRow, isMasked: boolean): string {
    const known = isMasked ? masked : clear;
    let text = known.get(row);
    if (text === undefined) {
      const answer = toAnswer(listedEventSchema, row);
      text = JSON.stringify(isMasked ? maskAnswer(listedEventSchema, answer) : answer);
      known.set(row, text);
    }
    return text;
  }

  return {
    events(page: readonly LiveRow[], isMasked: boolean, skipped: number, position: number): string {
      const data = page.map((row) => rowText(row, isMasked)).join(",");
      return `id: ${position}\nevent: events\ndata: {"data":[${data}],"skipped":${skipped}}\n\n`;
    },
    overview(view: OverviewView): { readonly facts: string; readonly text: string } {
      if (last?.view !== view) {
        const { at, ...facts } = toAnswer(overviewSchema, view);
        last = {
          view,
          facts: JSON.stringify(facts),
          text: message("overview", { at, ...facts }, null),
        };
      }
      return last;
    },
  };
}
