import { setPriority } from "node:os";
import { setTimeout as wait } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import type { Work } from "../sql/ops.ts";
import { type Db, openForReading } from "./file.ts";
import type { ThreadAnswer, ThreadCall, ThreadData } from "./inspecting.ts";
import { createSqliteRunner } from "./runner.ts";
import { pageReads, type ThreadParts, wholeReads } from "./thread-reads.ts";

/*
 * A thread that reads many rows, on read-only connections of its own. Concurrent calls take turns slice by slice, so that a
 * count does not wait for an audit of minutes.
 */

/** Pause between two slices, in which the relay can commit without a reader and empty its write-ahead log. */
const pauseMs = 3;
/** How long a slice may take before the next pause. A statement is not interrupted. */
const sliceMs = 10;

const { kind } = workerData as ThreadData;
const say = (answer: ThreadAnswer) => parentPort?.postMessage(answer);

// On Linux this affects only this thread, so that receiving goes first when processors are scarce.
if (process.platform === "linux") {
  try {
    setPriority(0, 19);
  } catch {
    // Some containers forbid it. The thread then keeps the usual priority.
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
  db.pragma("cache_size = -16384");
  return db;
}

const readsOf = (db: Db, progress: ThreadParts["progress"]) =>
  (kind === "pages" ? pageReads : wholeReads)({ db, read: stepping(db), progress }) as unknown as Readonly<
    Record<string, (...args: readonly unknown[]) => unknown>
  >;

/** What pages read: opening a connection and filling its cache takes longer than most of these reads. */
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
    const reads = own === null ? keptReads(path) : readsOf(own, (progress) => say({ id, progress }));
    say({ id, result: await reads[name]?.(...args) });
  } catch (error) {
    say({ id, error: (error as Error).message });
    if (kind === "whole") return;
    // The next call opens the file again.
    kept?.db.close();
    kept = null;
  } finally {
    own?.close();
  }
}

parentPort?.on("message", (call: ThreadCall) => void answer(call));
