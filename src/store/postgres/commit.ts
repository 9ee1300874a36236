import { StoreUnavailable } from "../port.ts";
import type { Batches } from "../work/batches.ts";
import type { Sessions } from "./sessions.ts";

/** Most commands of a transaction. */
const mostAtOnce = 100;

interface Pending<In, Out> {
  readonly item: In;
  readonly resolve: (outcome: Out) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Gathers the commands of a kind that come while its transactions run. `inFlight`: how many of them, each on a
 * connection of its own.
 */
export function createPostgresCommit<In, Out>(sessions: Sessions, kind: Batches<In, Out>, inFlight: number) {
  let queue: Pending<In, Out>[] = [];
  let running = 0;
  let scheduled = false;

  async function commit(batch: readonly Pending<In, Out>[]): Promise<void> {
    try {
      const { outcomes, stored } = await sessions.transact(() => kind.work(batch.map(({ item }) => item)));
      stored?.();
      for (const [place, { resolve }] of batch.entries()) resolve(outcomes[place] as Out);
    } catch (error) {
      if (error instanceof StoreUnavailable || batch.length === 1) {
        for (const { reject } of batch) reject(error);
        return;
      }
      // One of them fails for a reason of its own, and harms only itself.
      const half = Math.ceil(batch.length / 2);
      await commit(batch.slice(0, half));
      await commit(batch.slice(half));
    }
  }

  function start(): void {
    scheduled = false;
    while (queue.length > 0 && running < inFlight) {
      const batch = queue.slice(0, mostAtOnce);
      queue = queue.slice(mostAtOnce);
      running += 1;
      void commit(batch).finally(() => {
        running -= 1;
        schedule();
      });
    }
  }

  function schedule(): void {
    if (scheduled || queue.length === 0) return;
    scheduled = true;
    setImmediate(start);
  }

  return {
    /** Runs the command in one of the next transactions. Resolves with its outcome once that is durable. */
    run(item: In): Promise<Out> {
      return new Promise<Out>((resolve, reject) => {
        queue.push({ item, resolve, reject });
        schedule();
      });
    },
  };
}
