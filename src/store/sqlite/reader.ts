import type { Inspecting } from "../inspecting.ts";
import type { OpenPage, Wanted } from "../listen-page.ts";
import type { StoreReading } from "../reading.ts";
import { createInspecting } from "./inspecting.ts";
import { createNames, type Names } from "./names.ts";
import { type Db, openForReading } from "./open.ts";
import { createPlans } from "./plans.ts";
import { createReadDeliveries } from "./read-deliveries.ts";
import { createReadEvents } from "./read-events.ts";
import { createReadFile } from "./read-file.ts";
import { createReadListen } from "./read-listen.ts";
import { createReadMessages } from "./read-messages.ts";
import { createReadRuns } from "./read-runs.ts";
import { createReadStats } from "./read-stats.ts";
import { createReadStories } from "./read-stories.ts";

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
