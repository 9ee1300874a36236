import { setPriority } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { createReading } from "../read/reading.ts";
import { stats } from "../read/stats.ts";
import type { Work } from "../sql/ops.ts";
import { type Db, openForReading } from "./file.ts";
import type { ThreadAnswer, ThreadCall, ThreadData } from "./inspecting.ts";
import { createSqliteRunner } from "./runner.ts";
import { type ThreadParts, wholeReads } from "./thread-reads.ts";

/*
 * A thread that reads many rows, on read-only connections of its own. Calls take turns slice by
 * slice, so that a count does not wait for an audit.
 */

/** The relay can commit without a reader meanwhile, and empty its write-ahead log. */
const pauseMs = 3;
const sliceMs = 10;

const { kind } = workerData as ThreadData;
const say = (answer: ThreadAnswer) => parentPort?.postMessage(answer);

// On Linux this affects only this thread: receiving goes first.
if (process.platform === "linux") {
  try {
    setPriority(0, 19);
  } catch {
    // Some containers forbid it.
  }
}

function stepping(db: Db) {
  const runner = createSqliteRunner(db);
  return async <T>(work: Work<T>): Promise<T> => {
    let since = performance.now();
    let step = work.next();
    while (step.done !== true) {
      const result = runner.run(step.value);
      if (performance.now() - since >= sliceMs) {
        await wait(db.inTransaction ? 0 : pauseMs);
        since = performance.now();
      }
      step = work.next(result);
    }
    return step.value;
  };
}

function open(path: string): Db {
  const db = openForReading(path);
  db.pragma("cache_size = -4096");
  return db;
}

function readsOf(db: Db, progress: ThreadParts["progress"]) {
  const read = stepping(db);
  const reads =
    kind === "pages"
      ? { ...createReading({ read }), stats: () => read(stats()) }
      : wholeReads({ db, read, progress });
  return reads as unknown as Readonly<Record<string, (...args: readonly unknown[]) => unknown>>;
}

/** Opening a connection and filling its cache takes longer than most reads of pages. */
let kept: { readonly db: Db; readonly reads: ReturnType<typeof readsOf> } | null = null;

function keptReads(path: string): ReturnType<typeof readsOf> {
  if (kept === null) {
    const db = open(path);
    kept = { db, reads: readsOf(db, () => {}) };
  }
  return kept.reads;
}

async function answer({ id, path, name, args }: ThreadCall): Promise<void> {
  let own: Db | null = null;
  try {
    if (kind === "whole") own = open(path);
    const reads =
      own === null ? keptReads(path) : readsOf(own, (progress) => say({ id, progress }));
    say({ id, result: await reads[name]?.(...args) });
  } catch (error) {
    say({ id, error: (error as Error).message });
    if (kind === "whole") return;
    kept?.db.close();
    kept = null;
  } finally {
    own?.close();
  }
}

parentPort?.on("message", (call: ThreadCall) => void answer(call));
