import { StoreUnavailable } from "../port.ts";
import { type Db, isStorageFault } from "./open.ts";

interface GroupCommit {
  /**
   * Runs `write` inside the next transaction and resolves once that is on the disk.
   * `write` only touches the database: it may be run again in a transaction of its own when another
   * in its group failed. Rejects with {@link StoreUnavailable} when storing is not possible now.
   */
  run<T>(write: () => T): Promise<T>;
  /** Resolves when everything handed in so far is committed or failed. */
  idle(): Promise<void>;
}

export interface GroupCommitHooks {
  /** Asked before each transaction: why nothing may be written now, null when it may. */
  refusal(): StoreUnavailable | null;
  /** True while more writes can be expected within one turn of the event loop. */
  arriving(): boolean;
  /** Before the writes of each transaction. */
  beginning(): void;
  /** After the writes of each transaction, inside it: for sums over all of them. */
  closing(): void;
  /** After each transaction that changed a row: how long it took and how many writes it held. */
  committed(tookMs: number, writes: number): void;
  /** A transaction failed as a whole; in-memory copies of rows it wrote must be forgotten. */
  rolledBack(error: unknown): void;
}

interface Pending {
  write: () => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

/**
 * Bounds of the time for which a write waits for others that arrive one per turn of the event loop. In between it is
 * twice what the last commit took: a slow disk makes large groups, and a fast one waits for nothing.
 */
const gatherMs = { least: 2, most: 20 };

/**
 * Gathers the writes of one turn of the event loop into one transaction: an fsync costs as much for
 * one row as for fifty, so that FULL durability is nearly free under load (FACTS.md, better-sqlite3).
 * Node accepts only one connection per turn. While each turn brings another one, the group stays open,
 * because senders without keep-alive would get an fsync each: a fifth of the events per second (bench/ingest).
 */
export function createGroupCommit(db: Db, hooks: GroupCommitHooks, now: () => number = () => performance.now()): GroupCommit {
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const rollback = db.prepare("ROLLBACK");
  const changes = db.prepare<[], number>("SELECT total_changes()").pluck();
  let queue: Pending[] = [];
  let scheduled = false;
  /** When the current group is written even if more writes are expected. */
  let gatherUntil = 0;
  let lastTookMs = 0;
  let waiters: (() => void)[] = [];

  function undo(error: unknown): void {
    // SQLite has itself rolled back after some errors (disk full, I/O).
    if (db.inTransaction) rollback.run();
    hooks.rolledBack(error);
  }

  /** One transaction; the results of its writes, or what made it fail as a whole. */
  function attempt(batch: readonly Pending[]): { ok: true; results: unknown[] } | { ok: false; error: unknown } {
    const startedAt = now();
    let changed = 0;
    const results: unknown[] = new Array(batch.length);
    try {
      hooks.beginning();
      begin.run();
      changed = changes.get() ?? 0;
      for (let i = 0; i < batch.length; i++) {
        results[i] = (batch[i] as Pending).write();
      }
      hooks.closing();
      changed = (changes.get() ?? 0) - changed;
      commit.run();
    } catch (error) {
      undo(error);
      return { ok: false, error };
    }
    lastTookMs = now() - startedAt;
    // One that found nothing to change wrote nothing, and does not prove that storing works (disk full).
    if (changed > 0) hooks.committed(lastTookMs, batch.length);
    return { ok: true, results };
  }

  function settle(batch: readonly Pending[]): void {
    const refusal = hooks.refusal();
    if (refusal !== null) {
      for (const pending of batch) pending.reject(refusal);
      return;
    }
    const outcome = attempt(batch);
    if (outcome.ok) {
      for (let i = 0; i < batch.length; i++) (batch[i] as Pending).resolve(outcome.results[i]);
      return;
    }
    if (isStorageFault(outcome.error)) {
      const unavailable = new StoreUnavailable(`cannot store now: ${(outcome.error as Error).message}`, { cause: outcome.error });
      for (const pending of batch) pending.reject(unavailable);
    } else if (batch.length === 1) {
      (batch[0] as Pending).reject(outcome.error);
    } else {
      // One bad write must not fail its neighbours: each again, alone.
      for (const pending of batch) settle([pending]);
    }
  }

  function flush(): void {
    if (hooks.arriving() && now() < gatherUntil) {
      setImmediate(flush);
      return;
    }
    scheduled = false;
    const batch = queue;
    queue = [];
    settle(batch);
    if (queue.length === 0) {
      const done = waiters;
      waiters = [];
      for (const resolve of done) resolve();
    }
  }

  return {
    run<T>(write: () => T): Promise<T> {
      return new Promise<T>((resolve, reject) => {
        queue.push({ write, resolve: resolve as (value: unknown) => void, reject });
        if (!scheduled) {
          scheduled = true;
          gatherUntil = now() + Math.min(gatherMs.most, Math.max(gatherMs.least, 2 * lastTookMs));
          setImmediate(flush);
        }
      });
    },
    idle() {
      return queue.length === 0 ? Promise.resolve() : new Promise((resolve) => waiters.push(resolve));
    },
  };
}
