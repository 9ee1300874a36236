import { StoreUnavailable } from "../port.ts";
import { isStorageFault } from "./faults.ts";
import type { Db } from "./file.ts";

export interface GroupCommitHooks {
  /** Called before each transaction: why nothing may be written, or null. */
  refusal(): StoreUnavailable | null;
  /** True while more writes can be expected within one turn of the event loop. */
  arriving(): boolean;
  /** Before the writes of each transaction. */
  beginning(): void;
  /** After the writes of each transaction and inside it, for sums over all of them. */
  closing(): void;
  /** After each transaction that changed a row: how long it took and how many writes it held. */
  committed(tookMs: number, writes: number): void;
  /** A transaction failed as a whole. In-memory copies of its rows must be dropped. */
  rolledBack(error: unknown): void;
}

interface Pending {
  write: () => unknown;
  resolve: (value: unknown) => void;
  reject: (error: unknown) => void;
}

/**
 * Bounds of the time for which a write waits for others that arrive one per turn of the event loop. Between them it is
 * twice the duration of the last commit, so that a slow disk gets large groups and a fast one short waits.
 */
const gatherMs = { least: 2, most: 20 };

/**
 * Gathers the writes of one turn of the event loop into one transaction. An fsync costs as much for one row as for fifty,
 * so FULL durability is nearly free under load (FACTS.md, better-sqlite3). Node accepts one connection per turn, so the
 * group stays open while each turn brings another one. With an fsync per connection, senders without keep-alive would get
 * a fifth of the events per second (bench/ingest).
 */
export function createGroupCommit(db: Db, hooks: GroupCommitHooks, now: () => number = () => performance.now()) {
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
    // After some errors (disk full, I/O) SQLite has already rolled back.
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
    // A transaction without changes wrote nothing, so it does not show that the disk can be written.
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
      // One failed write must not fail the others, so each runs again on its own.
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
    /**
     * Runs `write` inside the next transaction and resolves once that is on the disk. `write` may only touch the database:
     * it runs again in a transaction of its own when another write of its group failed. Rejects with
     * {@link StoreUnavailable} when the file cannot be written.
     */
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
    /** Resolves when all pending writes are committed or have failed. */
    idle(): Promise<void> {
      return queue.length === 0 ? Promise.resolve() : new Promise((resolve) => waiters.push(resolve));
    },
  };
}
