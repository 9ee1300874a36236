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
  refusal(): StoreUnavailable | null;
  /** First in each transaction. */
  begin(): Work<void>;
  arriving(): boolean;
  committed(tookMs: number, commands: number): void;
  rolledBack(error: unknown): void;
}

/** Larger groups write fewer pages, and hold up others for longer. */
const mostAtOnce = 250;
/**
 * A command waits for twice the duration of the last commit, within these bounds: a slow disk gets
 * large groups.
 */
const gatherMs = { least: 2, most: 20 };

/**
 * Commands come into one transaction while each turn of the event loop brings more of them: an
 * fsync costs as much for one row as for fifty.
 */
export function createSqliteCommit(
  runner: SqliteRunner,
  hooks: CommitHooks,
  now: () => number = () => performance.now(),
) {
  const waiting = new Map<Pending["kind"], Pending[]>();
  let count = 0;
  let scheduled = false;
  let before = 0;
  let gatherUntil = 0;
  let lastTookMs = 0;
  let waiters: (() => void)[] = [];

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
      // A transaction without changes wrote nothing, so it does not show that the disk can be
      // written.
      if (runner.changed() > changed) hooks.committed(lastTookMs, batch.length);
      for (const then of after) then();
    } catch (error) {
      hooks.rolledBack(error);
      if (error instanceof StoreUnavailable) for (const { reject } of batch) reject(error);
      else if (isStorageFault(error)) {
        const unavailable = new StoreUnavailable(`cannot store now: ${(error as Error).message}`, {
          cause: error,
        });
        for (const { reject } of batch) reject(unavailable);
      } else if (batch.length === 1) batch[0]?.reject(error);
      else {
        const half = Math.ceil(batch.length / 2);
        commit(batch.slice(0, half));
        commit(batch.slice(half));
      }
    }
  }

  /**
   * An equal part of each kind, and more of the larger ones: an event must not wait behind the
   * outcomes of a thousand attempts.
   */
  function next(): Pending[] {
    const batch: Pending[] = [];
    const lists = [...waiting].toSorted(([, one], [, other]) => one.length - other.length);
    for (const [place, [kind, list]] of lists.entries()) {
      batch.push(
        ...list.splice(0, Math.ceil((mostAtOnce - batch.length) / (lists.length - place))),
      );
      if (list.length === 0) waiting.delete(kind);
    }
    count -= batch.length;
    return batch;
  }

  function flush(): void {
    const isGrowing = count > before || hooks.arriving();
    before = count;
    if (isGrowing && count < mostAtOnce && now() < gatherUntil) {
      setImmediate(flush);
      return;
    }
    before = 0;
    commit(next());
    scheduled = count > 0;
    if (scheduled) {
      setImmediate(flush);
      return;
    }
    const done = waiters;
    waiters = [];
    for (const resolve of done) resolve();
  }

  return {
    run<In, Out>(kind: Batches<In, Out>, item: In): Promise<Out> {
      return new Promise<Out>((resolve, reject) => {
        const of = kind as Batches<unknown, unknown>;
        const pending = { kind: of, item, resolve: resolve as (outcome: unknown) => void, reject };
        if (waiting.get(of)?.push(pending) === undefined) waiting.set(of, [pending]);
        count += 1;
        if (scheduled) return;
        scheduled = true;
        gatherUntil = now() + Math.min(gatherMs.most, Math.max(gatherMs.least, 2 * lastTookMs));
        setImmediate(flush);
      });
    },
    idle(): Promise<void> {
      return scheduled ? new Promise((resolve) => waiters.push(resolve)) : Promise.resolve();
    },
  };
}
