import { setPriority } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { runAudit } from "./audit.ts";
import { copyStore } from "./copy.ts";
import { type Db, damageOf, openForReading } from "./file.ts";
import type { InspectAnswer, InspectJob, PageReads } from "./inspecting.ts";
import { createNames } from "./names.ts";
import { createPlans } from "./plans.ts";
import { createReadDeliveries } from "./read-deliveries.ts";
import { createReadEvents } from "./read-events.ts";
import { createReadHistory, sumQuality } from "./read-history.ts";
import { createReadMessages, createReadRuns } from "./read-messages.ts";
import { countStats, createReadStats } from "./read-stats.ts";

/*
 * The thread that reads many rows, on read-only connections of its own. Concurrent jobs take turns slice by slice, so that
 * a count does not wait for an audit of minutes.
 */

/** Pause between two slices, in which the relay can commit without a reader and empty its write-ahead log. */
const pauseMs = 3;

const { path } = workerData as { path: string };
const say = (answer: InspectAnswer) => parentPort?.postMessage(answer);

// On Linux this affects only this thread, so that receiving goes first when processors are scarce.
if (process.platform === "linux") {
  try {
    setPriority(0, 19);
  } catch {
    // Some containers forbid it. The thread then keeps the usual priority.
  }
}

async function stepThrough<Step, Result>(steps: Generator<Step, Result>, each: (step: Step) => void): Promise<Result> {
  for (;;) {
    const step = steps.next();
    if (step.done === true) return step.value;
    each(step.value);
    await wait(pauseMs);
  }
}

function open(): Db {
  const db = openForReading(path);
  db.pragma("cache_size = -16384");
  return db;
}

/** What pages read, on a connection that is kept: opening one and filling its cache takes longer than most of these reads. */
let kept: { readonly db: Db; readonly pages: ThreadReads } | null = null;

/** A read that goes through many rows is a generator, and yields between slices so that other pages need not wait for it. */
type ThreadReads = {
  readonly [Name in keyof PageReads]: (
    ...asked: Parameters<PageReads[Name]>
  ) => ReturnType<PageReads[Name]> | Generator<void, ReturnType<PageReads[Name]>>;
};

function keep(): NonNullable<typeof kept> {
  if (kept !== null) return kept;
  const db = open();
  const names = createNames(db);
  const events = createReadEvents(db, names, createPlans(db));
  const deliveries = createReadDeliveries(db, names, events);
  const { backlog, quarantine } = createReadStats(db, names);
  const history = createReadHistory(db, names);
  const pages: ThreadReads = {
    events: events.list,
    deliveries: deliveries.list,
    deliveryCounts: deliveries.counts,
    groups: deliveries.groups,
    messages: createReadMessages(db, names).list,
    runs: createReadRuns(db, names).list,
    series: history.series,
    lastHour: history.lastHour,
    quality: (query) => sumQuality(db, query),
    backlog,
    quarantine,
  };
  kept = { db, pages };
  return kept;
}

async function answerPage({ id, name, asked }: Extract<InspectJob, { kind: "page" }>): Promise<void> {
  try {
    const read = (keep().pages[name] as (...asked: readonly unknown[]) => unknown)(...asked);
    say({ id, page: isGenerator(read) ? await stepThrough(read, () => {}) : read });
  } catch (error) {
    // The next job opens the file again.
    kept?.db.close();
    kept = null;
    say({ id, error: { message: (error as Error).message } });
  }
}

const isGenerator = (read: unknown): read is Generator<void, unknown> => typeof (read as Generator | null)?.next === "function";

async function answerWhole(job: Exclude<InspectJob, { kind: "page" }>): Promise<void> {
  const { id } = job;
  let db: Db | null = null;
  try {
    db = open();
    switch (job.kind) {
      case "stats":
        say({ id, stats: await stepThrough(countStats(db), () => {}) });
        break;
      case "audit":
        say({ id, report: await stepThrough(runAudit(db, job.order), (progress) => say({ id, progress })) });
        break;
      case "copy":
        say({ id, copied: await copyStore(db, job.to, (progress) => say({ id, progress })) });
        break;
      case "damage":
        say({ id, damage: await stepThrough(findDamage(db), () => {}) });
    }
  } catch (error) {
    say({ id, error: { message: (error as Error).message } });
  } finally {
    db?.close();
  }
}

/** Table by table, because a thread that is ended finishes its statement first. */
function* findDamage(db: Db): Generator<void, string | null> {
  for (const table of db.prepare<[], string>("SELECT name FROM sqlite_schema WHERE type = 'table'").pluck().all()) {
    const damage = damageOf(db, table);
    if (damage !== null) return damage;
    yield;
  }
  return null;
}

parentPort?.on("message", (job: InspectJob) => {
  if (job.kind === "page") void answerPage(job);
  else void answerWhole(job);
});
