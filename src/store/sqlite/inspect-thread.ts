import { setPriority } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { runAudit } from "./audit.ts";
import { backUp } from "./backup.ts";
import { type Db, openForReading } from "./file.ts";
import type { InspectAnswer, InspectJob } from "./inspecting.ts";
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
    if (job.kind === "backup") {
      say({ id, backup: await backUp(path, job.target, { force: true }) });
      return;
    }
    db = openForReading(path);
    db.pragma("cache_size = -16384");
    if (job.kind === "stats") say({ id, stats: await stepThrough(countStats(db), () => {}) });
    else say({ id, report: await stepThrough(runAudit(db, job.order), (progress) => say({ id, progress })) });
  } catch (error) {
    say({ id, error: { message: (error as Error).message } });
  } finally {
    db?.close();
  }
}

parentPort?.on("message", (job: InspectJob) => void work(job));
