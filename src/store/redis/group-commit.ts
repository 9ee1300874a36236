import { StoreUnavailable } from "../port.ts";
import type { Argument } from "./script.ts";

export interface GroupCommit<Step, Result> {
  /** Sends the step with others of its turn; resolves with what came of it, once Redis has it. Rejects with `StoreUnavailable`. */
  run(step: Step): Promise<Result>;
  /** Resolves when everything handed in so far is answered. */
  idle(): Promise<void>;
}

interface GroupCommitHooks<Step, Result> {
  /** A batch as its script takes it. */
  write(steps: readonly Step[]): Argument[];
  /** As how many usual steps Redis takes as long for it. */
  workOf(step: Step): number;
  /** Of what is large in a step; the rest of it is some hundred bytes. */
  bytesOf(step: Step): number;
  /** Runs the script over a batch; rejects with `StoreUnavailable` when that is not possible. Gives what came of each step. */
  send(list: Argument[], steps: readonly Step[]): Promise<readonly Result[]>;
  committed(tookMs: number, writes: number): void;
  /** True while more steps can be expected within one turn of the event loop. Not given: never. */
  readonly arriving?: (() => boolean) | undefined;
}

interface Pending<Step, Result> {
  readonly step: Step;
  readonly resolve: (result: Result) => void;
  readonly reject: (error: unknown) => void;
}

/** Steps in a batch: Redis does nothing else while it runs one, some 50 µs for each. */
const mostSteps = 200;
/**
 * Below that a batch is the fourth part of what waits, but this at least: answers to the first come while Redis has the
 * next, so that neither of the two stands still for the other (a quarter more events, bench/ingest).
 */
const fewSteps = 16;
/** Bytes after which a batch takes no more: one of large bodies would take longer to send than a command may. */
const mostBytes = 4 * 1024 * 1024;
/** Batches under way: beyond that, load makes batches larger, and not the queue longer. */
const mostUnderWay = 3;

/**
 * Gathers the steps of one turn of the event loop into one script, as the embedded engine gathers them into a transaction.
 * While Redis is busy with a batch and each turn brings another connection, a small batch waits for more.
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
  let underWay = 0;
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
      // One bad step must not fail its neighbors. Each knows by itself if it was done before the bad one.
      else for (const pending of batch) await flushOne([pending]);
    }
  }

  /** How many of those that wait go into the next batch. */
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
    if (underWay > 0 && queue.length < fewSteps && arriving()) {
      schedule();
      return;
    }
    while (queue.length > 0 && underWay < mostUnderWay) {
      const size = sizeOfNext();
      const batch = queue.slice(0, size);
      queue = queue.slice(size);
      underWay += 1;
      void flushOne(batch).finally(() => {
        underWay -= 1;
        schedule();
        if (queue.length + underWay > 0) return;
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
      return queue.length + underWay === 0 ? Promise.resolve() : new Promise((resolve) => waiters.push(resolve));
    },
  };
}
