import { kept } from "../../model/maps.ts";
import type { Batches } from "../create-store.ts";
import { StoreUnavailable } from "../port.ts";
import type { Sessions } from "./sessions.ts";

const mostAtOnce = 250;
const mostWaiting = 10_000;
/** Callers are gone after this time. */
const waitsMs = 5_000;

interface Pending<In, Out> {
  readonly item: In;
  readonly since: number;
  readonly resolve: (outcome: Out) => void;
  readonly reject: (error: unknown) => void;
}

interface CommitHooks {
  committed(tookMs: number, commands: number): void;
  failed(error: StoreUnavailable): void;
}

export function createPostgresCommit<In, Out>(
  sessions: Pick<Sessions, "transact">,
  kind: Batches<In, Out>,
  hooks?: CommitHooks,
) {
  // Two commands that lock what they like could wait for each other.
  const most = kind.isEach === true ? 1 : mostAtOnce;
  // Two groups would wait for each other's counters; a heartbeat must not wait for a lock.
  const inFlight = kind.isEach === true ? 2 : 1;
  let queue: Pending<In, Out>[] = [];
  let running = 0;
  let scheduled = false;
  const waiters: (() => void)[] = [];

  async function commit(batch: readonly Pending<In, Out>[]): Promise<void> {
    const startedAt = performance.now();
    try {
      const { outcomes, stored } = await sessions.transact(() =>
        kind.work(batch.map(({ item }) => item)),
      );
      hooks?.committed(performance.now() - startedAt, batch.length);
      stored?.();
      for (const [place, { resolve }] of batch.entries()) resolve(outcomes[place] as Out);
    } catch (error) {
      if (error instanceof StoreUnavailable) hooks?.failed(error);
      if (error instanceof StoreUnavailable || batch.length === 1) {
        for (const { reject } of batch) reject(error);
        return;
      }
      // One command fails for a reason of its own.
      const half = Math.ceil(batch.length / 2);
      await commit(batch.slice(0, half));
      await commit(batch.slice(half));
    }
  }

  function start(): void {
    scheduled = false;
    const late = performance.now() - waitsMs;
    while ((queue[0]?.since ?? late) < late) {
      queue
        .shift()
        ?.reject(
          new StoreUnavailable(
            `cannot store now: PostgreSQL had no time for it within ${waitsMs / 1000} s`,
          ),
        );
    }
    while (queue.length > 0 && running < inFlight) {
      const batch = queue.slice(0, most);
      queue = queue.slice(most);
      running += 1;
      void commit(batch).finally(() => {
        running -= 1;
        schedule();
        if (queue.length === 0 && running === 0) for (const resolve of waiters.splice(0)) resolve();
      });
    }
  }

  function schedule(): void {
    if (scheduled || queue.length === 0) return;
    scheduled = true;
    setImmediate(start);
  }

  return {
    run(item: In): Promise<Out> {
      if (queue.length >= mostWaiting) {
        return Promise.reject(
          new StoreUnavailable(`cannot store now: ${mostWaiting} commands wait for PostgreSQL`),
        );
      }
      return new Promise<Out>((resolve, reject) => {
        queue.push({ item, since: performance.now(), resolve, reject });
        schedule();
      });
    },
    idle(): Promise<void> {
      return queue.length === 0 && running === 0
        ? Promise.resolve()
        : new Promise((resolve) => waiters.push(resolve));
    },
  };
}

/** Commands of all kinds, each kind in groups of its own. */
export function createPostgresCommits(
  sessionsOf: (kind: unknown) => Pick<Sessions, "transact">,
  hooksOf: (kind: unknown) => CommitHooks,
) {
  const commits = new Map<unknown, ReturnType<typeof createPostgresCommit<unknown, unknown>>>();
  return {
    run<In, Out>(kind: Batches<In, Out>, item: In): Promise<Out> {
      const commit = kept(commits, kind, () =>
        createPostgresCommit(sessionsOf(kind), kind as Batches<unknown, unknown>, hooksOf(kind)),
      );
      return commit.run(item) as Promise<Out>;
    },
    async idle(): Promise<void> {
      await Promise.all([...commits.values()].map((commit) => commit.idle()));
    },
  };
}
