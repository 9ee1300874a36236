import { setPriority } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { runAudit } from "./audit.ts";
import { copyStore } from "./copy.ts";
import { type Db, openForReading } from "./file.ts";
import type { InspectAnswer, InspectJob } from "./inspecting.ts";
import { createNames } from "./names.ts";
import { createReadHistory, sumQuality } from "./read-history.ts";
import { countStats } from "./read-stats.ts";

/*
 * The thread that reads every row, on a read-only connection of its own. Concurrent jobs take turns slice by slice, so that
 * a count does not wait for an audit of minutes.
 */

/** Pause between two slices, in which the relay can commit without a reader and empty its write-ahead log. */
const pauseMs = 3;

const { path } = workerData as { path: string };
const say = (answer: InspectAnswer) => parentPort?.postMessage(answer);

// On Linux this affects only this thread, so that receiving goes first when processors are scarce.
if (process.platform === "linux") {
  try {
    setPriority(0, 10);
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

async function work(job: InspectJob): Promise<void> {
  const { id } = job;
  let db: Db | null = null;
  try {
    db = openForReading(path);
    db.pragma("cache_size = -16384");
    switch (job.kind) {
      case "stats":
        say({ id, stats: await stepThrough(countStats(db), () => {}) });
        break;
      case "audit":
        say({ id, report: await stepThrough(runAudit(db, job.order), (progress) => say({ id, progress })) });
        break;
      case "series":
        say({ id, series: createReadHistory(db, createNames(db)).series(job.query) });
        break;
      case "quality":
        say({ id, quality: await stepThrough(sumQuality(db, job.query), () => {}) });
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
    const found = db.pragma(`integrity_check('${table}')`, { simple: true }) as string;
    if (found !== "ok") return found.split("\n")[0] as string;
    yield;
  }
  return null;
}

parentPort?.on("message", (job: InspectJob) => void work(job));
