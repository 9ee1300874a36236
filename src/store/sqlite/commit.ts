import type { Batches } from "../create-store.ts";
import { StoreUnavailable } from "../port.ts";
import type { Work } from "../sql/ops.ts";
import { isStorageFault } from "./faults.ts";
import type { SqliteRunner } from "./runner.ts";

interface Pending {
  readonly kind: Batches<unknown, unknown>;
  readonly item: unknown;
  readonly resolve: (outcome: unknown) => void;
  readonly reject: (error: unknown) => void;
}

export interface CommitHooks {
  /** Before each transaction: why nothing may be written, or null. */
  refusal(): StoreUnavailable | null;
  /** First in each transaction: throws `StoreUnavailable` when nothing may be written any more. */
  begin(): Work<void>;
  /** True while new connections can bring commands within one turn of the event loop. */
  arriving(): boolean;
  /** After each transaction that changed a row: how long it took, and the number of its commands. */
  committed(tookMs: number, commands: number): void;
  /** A transaction failed as a whole. */
  rolledBack(error: unknown): void;
}

/**
 * Most commands of a transaction. A flood of them holds up others for one such group only. Larger groups write fewer pages: each
 * group changes about one page of every random index for each event.
 */
const mostAtOnce = 250;
/**
 * Bounds of the time for which a command waits for others. Between them it is twice the duration of the last commit, so that
 * a slow disk gets large groups and a fast one short waits.
 */
const gatherMs = { least: 2, most: 20 };

/**
 * Gathers commands into one transaction while each turn of the event loop brings more of them, or a connection. An fsync
 * costs as much for one row as for fifty, so FULL durability is nearly free under load.
 */
export function createSqliteCommit(runner: SqliteRunner, hooks: CommitHooks, now: () => number = () => performance.now()) {
  const queue: Pending[] = [];
  let scheduled = false;
  /** Length of the queue one turn of the event loop ago. */
  let before = 0;
  /** When the current group is written even if more commands are expected. */
  let gatherUntil = 0;
  let lastTookMs = 0;
  let waiters: (() => void)[] = [];

  /** The commands of each kind together, in the order in which the kinds came first. Returns what to do after the commit. */
  function* all(batch: readonly Pending[]): Work<(() => void)[]> {
    const after: (() => void)[] = [];
    yield* hooks.begin();
    for (const [kind, group] of Map.groupBy(batch, (pending) => pending.kind)) {
      const { outcomes, stored } = yield* kind.work(group.map(({ item }) => item));
      if (stored !== undefined) after.push(stored);
      after.push(() => {
        for (const [place, { resolve }] of group.entries()) resolve(outcomes[place]);
      });
    }
    return after;
  }

  function commit(batch: readonly Pending[]): void {
    const refusal = hooks.refusal();
    if (refusal !== null) {
      for (const { reject } of batch) reject(refusal);
      return;
    }
    const startedAt = now();
    const changed = runner.changed();
    try {
      const after = runner.transact(all(batch));
      lastTookMs = now() - startedAt;
      // A transaction without changes wrote nothing, so it does not show that the disk can be written.
      if (runner.changed() > changed) hooks.committed(lastTookMs, batch.length);
      for (const then of after) then();
    } catch (error) {
      hooks.rolledBack(error);
      if (error instanceof StoreUnavailable) for (const { reject } of batch) reject(error);
      else if (isStorageFault(error)) {
        const unavailable = new StoreUnavailable(`cannot store now: ${(error as Error).message}`, { cause: error });
        for (const { reject } of batch) reject(unavailable);
      } else if (batch.length === 1) batch[0]?.reject(error);
      else {
        // One of them fails for a reason of its own, and harms only itself.
        const half = Math.ceil(batch.length / 2);
        commit(batch.slice(0, half));
        commit(batch.slice(half));
      }
    }
  }

  function flush(): void {
    const isGrowing = queue.length > before || hooks.arriving();
    before = queue.length;
    if (isGrowing && queue.length < mostAtOnce && now() < gatherUntil) {
      setImmediate(flush);
      return;
    }
    before = 0;
    // Listeners may hand in commands during the commit.
    commit(queue.splice(0, mostAtOnce));
    scheduled = queue.length > 0;
    if (scheduled) {
      setImmediate(flush);
      return;
    }
    const done = waiters;
    waiters = [];
    for (const resolve of done) resolve();
  }

  return {
    /** Runs the command inside the next transaction. Resolves with its outcome once that is on the disk. */
    run<In, Out>(kind: Batches<In, Out>, item: In): Promise<Out> {
      return new Promise<Out>((resolve, reject) => {
        queue.push({ kind: kind as Batches<unknown, unknown>, item, resolve: resolve as (outcome: unknown) => void, reject });
        if (scheduled) return;
        scheduled = true;
        gatherUntil = now() + Math.min(gatherMs.most, Math.max(gatherMs.least, 2 * lastTookMs));
        setImmediate(flush);
      });
    },
    /** Resolves when all commands are committed or have failed. */
    idle(): Promise<void> {
      return queue.length === 0 && !scheduled ? Promise.resolve() : new Promise((resolve) => waiters.push(resolve));
    },
  };
}
