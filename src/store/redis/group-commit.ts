import { StoreUnavailable } from "../port.ts";
import type { Argument } from "./script.ts";

export interface GroupCommit<Step, Result> {
  /** Sends the step in a batch with others; resolves with its result once Redis has stored it. Rejects with `StoreUnavailable`. */
  run(step: Step): Promise<Result>;
  /** Resolves when every step passed so far is answered. */
  idle(): Promise<void>;
}

interface GroupCommitHooks<Step, Result> {
  /** The arguments of the script for a batch. */
  write(steps: readonly Step[]): Argument[];
  /** Cost of a step, in usual steps. */
  workOf(step: Step): number;
  /** Size of the large parts of a step; the rest is some hundred bytes. */
  bytesOf(step: Step): number;
  /** Runs the script with a batch and returns the result of each step. Rejects with `StoreUnavailable`. */
  send(list: Argument[], steps: readonly Step[]): Promise<readonly Result[]>;
  committed(tookMs: number, writes: number): void;
  /** True while more steps are expected within one turn of the event loop. Default: never. */
  readonly arriving?: (() => boolean) | undefined;
}

interface Pending<Step, Result> {
  readonly step: Step;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Most steps in a batch, which blocks Redis for some 50 µs per step. */
const mostSteps = 200;
/**
 * Smallest target for a batch. Up to `mostSteps` a batch takes a quarter of the queue, so that Redis runs one batch while
 * this process handles the answers of another (a quarter more events, bench/ingest).
 */
const fewSteps = 16;
/** A batch ends after so many bytes: with large bodies it would take longer to send than `commandTimeout`. */
const mostBytes = 4 * 1024 * 1024;
/** Batches in flight; under more load, batches grow instead. */
const mostInFlight = 3;

/**
 * Sends the steps of one turn of the event loop as one script call, as the embedded engine commits them in one transaction.
 * While a batch is in flight and connections keep arriving, a small batch waits for more steps.
 */
export function createGroupCommit<Step, Result>({
  write,
  workOf,
  bytesOf,
  send,
  committed,
  arriving = () => false,
}: GroupCommitHooks<Step, Result>): GroupCommit<Step, Result> {
  let queue: Pending<Step, Result>[] = [];
  let inFlight = 0;
  let scheduled = false;
  let waiters: (() => void)[] = [];

  async function flushOne(batch: readonly Pending<Step, Result>[]): Promise<void> {
    const startedAt = performance.now();
    try {
      const steps = batch.map(({ step }) => step);
      const results = await send(write(steps), steps);
      committed(performance.now() - startedAt, batch.length);
      for (let n = 0; n < batch.length; n++) batch[n]?.resolve(results[n] as Result);
    } catch (error) {
      if (batch.length === 1 || error instanceof StoreUnavailable) for (const { reject } of batch) reject(error);
      // One bad step must not fail the others. Each step detects by itself if it was already done.
      else for (const pending of batch) await flushOne([pending]);
    }
  }

  /** Size of the next batch. */
  function sizeOfNext(): number {
    const most = Math.min(mostSteps, Math.max(fewSteps, Math.ceil(queue.length / 4)));
    let [size, work, bytes] = [0, 0, 0];
    for (; size < queue.length && work < most && bytes < mostBytes; size++) {
      const { step } = queue[size] as Pending<Step, Result>;
      work += workOf(step);
      bytes += bytesOf(step);
    }
    return size;
  }

  function flush(): void {
    scheduled = false;
    if (inFlight > 0 && queue.length < fewSteps && arriving()) {
      schedule();
      return;
    }
    while (queue.length > 0 && inFlight < mostInFlight) {
      const size = sizeOfNext();
      const batch = queue.slice(0, size);
      queue = queue.slice(size);
      inFlight += 1;
      void flushOne(batch).finally(() => {
        inFlight -= 1;
        schedule();
        if (queue.length + inFlight > 0) return;
        const done = waiters;
        waiters = [];
        for (const resolve of done) resolve();
      });
    }
  }

  function schedule(): void {
    if (scheduled || queue.length === 0) return;
    scheduled = true;
    setImmediate(flush);
  }

  return {
    run(step) {
      return new Promise((resolve, reject) => {
        queue.push({ step, resolve, reject });
        schedule();
      });
    },
    idle() {
      return queue.length + inFlight === 0 ? Promise.resolve() : new Promise((resolve) => waiters.push(resolve));
    },
  };
}
