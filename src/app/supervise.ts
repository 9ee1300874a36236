import { type Clock, growingWait } from "../model/clock.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { Logger } from "../observe/logger.ts";
import { StoreUnavailable } from "../store/port.ts";

export interface Task {
  readonly name: string;
  /** The wait before the first step, in ms. 0: it runs at once. */
  readonly firstMs: number;
  /** One step; resolves with the wait before the next one, in ms. Null: until it is woken. */
  run(signal: AbortSignal): MaybePromise<number | null>;
}

export interface Supervised {
  /** Runs a step now, or once more after the step in progress. */
  wake(): void;
  /** Starts no step any more; resolves once the step in progress has ended. */
  close(): Promise<void>;
}

export type Supervisor = ReturnType<typeof createSupervisor>;

const retryMs = { first: 500, longest: 10_000 };

/**
 * Runs all background tasks. A task that fails is retried with a growing wait, and its failure is
 * logged once until it succeeds. A store that is unavailable is not logged here, because it reports
 * that itself.
 */
export function createSupervisor({
  clock,
  log,
}: {
  readonly clock: Clock;
  readonly log: Pick<Logger, "error">;
}) {
  const entries = new Set<Supervised & { retry(): void }>();

  function supervise({ name, firstMs, run }: Task): Supervised {
    const closing = new AbortController();
    let running: Promise<void> | null = null;
    let isWoken = false;
    let isLogged = false;
    let failures = 0;
    let cancel = (): void => {};

    function start(): void {
      cancel();
      isWoken = false;
      try {
        const next = run(closing.signal);
        if (next instanceof Promise) running = next.then(succeeded, failed).then(ended);
        else ended(succeeded(next));
      } catch (error) {
        ended(failed(error));
      }
    }

    function ended(waitMs: number | null): void {
      running = null;
      if (closing.signal.aborted) return;
      if (isWoken && failures === 0) start();
      else if (waitMs !== null) cancel = clock.after(waitMs, start);
    }

    function succeeded(nextMs: number | null): number | null {
      failures = 0;
      isLogged = false;
      return nextMs;
    }

    function failed(error: unknown): number {
      failures += 1;
      if (!isLogged && !(error instanceof StoreUnavailable)) {
        log.error({ err: error }, `${name} failed; it will be tried again`);
        isLogged = true;
      }
      return growingWait(failures, retryMs.first, retryMs.longest);
    }

    const supervised = {
      wake() {
        if (closing.signal.aborted) return;
        if (running === null) start();
        else isWoken = true;
      },
      retry() {
        if (failures > 0) supervised.wake();
      },
      async close() {
        entries.delete(supervised);
        closing.abort();
        cancel();
        await running;
      },
    };
    entries.add(supervised);
    if (firstMs === 0) start();
    else cancel = clock.after(firstMs, start);
    return supervised;
  }

  return {
    supervise,
    /** Runs the tasks that wait after a failure now. */
    retry(): void {
      for (const entry of entries) entry.retry();
    },
    async close(): Promise<void> {
      await Promise.all([...entries].map((entry) => entry.close()));
    },
  };
}
