import { minuteMs } from "../../model/history.ts";
import { type LastHour, lastHourFrom } from "../../model/last-hour.ts";
import type { Inspecting, OpenPage, StoreReading, Wanted } from "../reading.ts";
import { type Db, openForReading } from "./file.ts";
import { createInspecting, type FileInspecting } from "./inspecting.ts";
import { createNames, dispositionCode, type Names, stateCode } from "./names.ts";
import { createPlans } from "./plans.ts";
import { createReadDeliveries } from "./read-deliveries.ts";
import { createReadEvents } from "./read-events.ts";
import { createReadHistory } from "./read-history.ts";
import { createReadListen } from "./read-listen.ts";
import { createReadMessages, createReadRuns } from "./read-messages.ts";
import { createReadStats } from "./read-stats.ts";
import { createReadStories } from "./read-stories.ts";

type Reading<T extends StoreReading> = T;
/** All reads: the port of both engines, and the reads about the file itself. */
export type StoreReader = Reading<ReturnType<typeof createReader>>;

/** `names`: those of the writing process, so that a purged name is not cached here. */
export function createReader(db: Db, names: Names = createNames(db)) {
  const events = createReadEvents(db, names, createPlans(db));
  const listen = createReadListen(db, names);
  const reading = createReading(db);
  const history = createReadHistory(db, names);
  const dataId = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'id'").pluck();
  return {
    events,
    deliveries: createReadDeliveries(db, names, events),
    messages: createReadMessages(db, names),
    runs: createReadRuns(db, names),
    file: createReadFile(db),
    dataId: (): string | null => dataId.get() ?? null,
    stories: createReadStories(db, names),
    history: { lastHour: (now: number): LastHour => finish(history.lastHour(now)) },
    hasMany: createHasMany(db),
    listen: {
      ...listen,
      // Rows and their contents are read while the page is used.
      page:
        (start: number, wanted: Wanted): OpenPage =>
        (use) =>
          reading(() => use(listen.page(start, wanted))),
    },
    ...createReadStats(db, names),
  };
}

/**
 * Runs reads in one transaction. Outside of one, each statement takes and releases the file locks: six system calls that
 * cost more than the look-up.
 */
export function createReading(db: Db): <T>(run: () => T) => T {
  const begin = db.prepare("BEGIN");
  const commit = db.prepare("COMMIT");
  return (run) => {
    begin.run();
    try {
      return run();
    } finally {
      commit.run();
    }
  };
}

/** Fewer rows are read within milliseconds, and a thread takes longer to start. */
const fewRows = 20_000;

/** The same reads. A read that may go through many rows runs in a thread and does not delay receiving. */
export function createBrowsing(read: StoreReader, pages: FileInspecting["pages"], few = fewRows): StoreReading {
  const { events, deliveries, messages, runs, history, hasMany } = read;
  const isAside = () =>
    [events, messages, runs].some(({ bounds }) => {
      const ends = bounds();
      return ends !== null && ends.newest - ends.oldest >= few;
    }) || hasMany.deliveries(few);
  return {
    ...read,
    isAside,
    events: { ...events, list: (filter) => (isAside() ? pages.events(filter) : events.list(filter)) },
    deliveries: {
      ...deliveries,
      list: (filter) => (isAside() ? pages.deliveries(filter) : deliveries.list(filter)),
      groups: (filter) => (isAside() ? pages.groups(filter) : deliveries.groups(filter)),
      counts: (seqs) => (isAside() ? pages.deliveryCounts(seqs) : deliveries.counts(seqs)),
    },
    messages: { ...messages, list: (filter) => (isAside() ? pages.messages(filter) : messages.list(filter)) },
    runs: { ...runs, list: (filter) => (isAside() ? pages.runs(filter) : runs.list(filter)) },
    history: { lastHour: (now) => (hasMany.minutes(lastHourFrom(now), few) ? pages.lastHour(now) : history.lastHour(now)) },
    backlog: () => (hasMany.undelivered(few) ? pages.backlog() : read.backlog()),
    quarantine: () => (hasMany.quarantined(few) ? pages.quarantine() : read.quarantine()),
  };
}

/** Whether there are at least so many rows. It steps over that many at most. */
function createHasMany(db: Db) {
  const has = <Values extends number[]>(rows: string) => {
    const find = db.prepare<[...Values, number], 1>(`SELECT 1 FROM ${rows} LIMIT 1 OFFSET +?`);
    return (...values: [...Values, number]): boolean => find.get(...values) !== undefined;
  };
  const waiting = has(`deliveries INDEXED BY deliveries_due WHERE state = ${stateCode.waiting}`);
  const ordered = has("deliveries INDEXED BY deliveries_open WHERE state <= 1 AND subject IS NOT NULL");
  const dead = has(`deliveries INDEXED BY deliveries_dead WHERE state = ${stateCode.dead}`);
  const minutes = has<[number]>("history_minutes WHERE at >= +?");
  const deliveries = has("deliveries");
  const quarantined = has(`events WHERE disposition = ${dispositionCode.quarantined}`);
  return {
    deliveries: (few: number): boolean => deliveries(few - 1),
    undelivered: (few: number): boolean => [waiting, ordered, dead].some((each) => each(few - 1)),
    quarantined: (few: number): boolean => quarantined(few - 1),
    minutes: (from: number, few: number): boolean => minutes(Math.floor(from / minuteMs), few - 1),
  };
}

/** Runs a read in slices to its end. */
function finish<T>(steps: Generator<void, T>): T {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
  }
}

/** A reader on the file of a relay that may be running. */
export function openReader(path: string): StoreReader & { readonly inspecting: Inspecting; close(): Promise<void> } {
  const db = openForReading(path);
  const inspecting = createInspecting(path);
  return {
    ...createReader(db),
    inspecting,
    async close() {
      db.close();
      await inspecting.close();
    },
  };
}

/** The reads of `doctor` about the file itself. */
export function createReadFile(db: Db) {
  const receivedAt = db.prepare<[number], number>("SELECT received_at FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT 1").pluck();

  const holder = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'holder'").pluck();
  const instance = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'instance'").pluck();

  return {
    /** The process that opened the file last for writing, such as `process 123 on host`. */
    holder: (): string | null => holder.get() ?? null,
    /** Id of that process. */
    instance: (): string | null => instance.get() ?? null,
    schemaVersion: (): number => db.pragma("user_version", { simple: true }) as number,
    /** Bytes of the file without its free pages. */
    usedBytes(): number {
      const pages = (name: string) => db.pragma(name, { simple: true }) as number;
      return (pages("page_count") - pages("freelist_count")) * pages("page_size");
    },
    /** The first fault that SQLite's check of the whole file finds, or null. */
    findDamage(): string | null {
      const found = db.pragma("quick_check(1)", { simple: true }) as string;
      return found === "ok" ? null : found;
    },
    /** When the event with this seq, or the one before it, was received, in unix ms. */
    receivedAt: (seq: number): number | null => receivedAt.get(seq) ?? null,
  };
}
