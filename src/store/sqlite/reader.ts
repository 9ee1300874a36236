import type { Inspecting, OpenPage, StoreReading, Wanted } from "../reading.ts";
import type { Proof } from "../views.ts";
import { createInspecting } from "./inspecting.ts";
import { createNames, dispositionCode, type Names } from "./names.ts";
import { type Db, openForReading } from "./open.ts";
import { createPlans } from "./plans.ts";
import { createReadDeliveries, createReadStats } from "./read-deliveries.ts";
import { createReadEvents, createReadStories } from "./read-events.ts";
import { createReadListen } from "./read-listen.ts";
import { createReadMessages, createReadRuns } from "./read-messages.ts";

type Reading<T extends StoreReading> = T;
/** Everything that looks and does not write: the port of all engines, and what is about a file. */
export type StoreReader = Reading<ReturnType<typeof createReader>>;

/** `names`: of the process that writes the file, so that a name removed there is not remembered here. */
export function createReader(db: Db, names: Names = createNames(db)) {
  const events = createReadEvents(db, names, createPlans(db));
  const file = createReadFile(db, names);
  const listen = createReadListen(db, names);
  const reading = createReading(db);
  return {
    events,
    deliveries: createReadDeliveries(db, names, events),
    messages: createReadMessages(db, names),
    runs: createReadRuns(db, names),
    file,
    proofs: file.proofs,
    stories: createReadStories(db, names),
    listen: {
      ...listen,
      // The rows are looked at, and their contents read, when and as the page is used.
      page:
        (start: number, wanted: Wanted): OpenPage =>
        (use) =>
          reading(() => use(listen.page(start, wanted))),
    },
    ...createReadStats(db, names),
  };
}

/**
 * Runs reads in one transaction. Outside of one each statement takes and gives back the file's locks,
 * six system calls that cost more than the look-up itself.
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

/** What `doctor` asks of the file itself. */
export function createReadFile(db: Db, names: Names) {
  const proofs = db.prepare<[], Omit<Proof, "source" | "secret"> & { source: number; secret: number }>(
    "SELECT source, secret, events, duplicates, first_at AS firstAt, last_at AS lastAt FROM proofs ORDER BY source, secret",
  );
  const receivedAt = db.prepare<[number], number>("SELECT received_at FROM events WHERE seq <= ? ORDER BY seq DESC LIMIT 1").pluck();
  const quarantined = db.prepare<[], number>(`SELECT count(*) FROM events WHERE disposition = ${dispositionCode.quarantined}`).pluck();

  const holder = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'holder'").pluck();

  return {
    /** The process that wrote last, such as `process 123 on host`. */
    holder: (): string | null => holder.get() ?? null,
    schemaVersion: (): number => db.pragma("user_version", { simple: true }) as number,
    /** Bytes of the file that hold rows, without pages that are free for use again. */
    usedBytes(): number {
      const pages = (name: string) => db.pragma(name, { simple: true }) as number;
      return (pages("page_count") - pages("freelist_count")) * pages("page_size");
    },
    /** SQLite's own look at the whole file, up to the first fault; null when there is none. Reads everything. */
    findDamage(): string | null {
      const found = db.pragma("quick_check(1)", { simple: true }) as string;
      return found === "ok" ? null : found;
    },
    quarantined: (): number => quarantined.get() ?? 0,
    proofs: (): Proof[] =>
      proofs.all().map(({ source, secret, ...sums }) => ({ source: names.nameOf(source), secret: names.nameOf(secret), ...sums })),
    /** Unix ms at which the event with this seq, or the one before it, was received. */
    receivedAt: (seq: number): number | null => receivedAt.get(seq) ?? null,
  };
}
