import { StoreUnavailable } from "../store-error.ts";
import type { PlanText } from "./plan-texts.ts";

export type Argument = string | Buffer;

/** One operation of lua/commit.lua with what it is given. */
export type Operation = readonly [name: string, ...list: Argument[]];

/** A step that is whole or not at all, as lua/commit.lua reads it. */
export interface Step {
  readonly list: readonly Argument[];
  /** What it has in common with others of its batch: sent once. */
  readonly account?: string;
  readonly plan?: PlanText;
}

export interface GroupCommit {
  /** Sends the step with others of its turn; resolves with what the script gave for it, once Redis has it. Rejects with `StoreUnavailable`. */
  run(step: Step): Promise<readonly unknown[]>;
  /** Resolves when everything handed in so far is answered. */
  idle(): Promise<void>;
}

export interface GroupCommitHooks {
  /** Runs the script over a batch, `[base, …accounts, …plans, …lists]`, each after its length; rejects with `StoreUnavailable` when that is not possible. */
  send(list: Argument[]): Promise<readonly (readonly unknown[])[]>;
  committed(tookMs: number, writes: number): void;
}

interface Pending {
  readonly step: Step;
  readonly resolve: (result: readonly unknown[]) => void;
  readonly reject: (error: unknown) => void;
}

/** Steps in a batch: Redis does nothing else while it runs one, some 20 µs for each. */
const mostSteps = 200;
/** Batches under way: while one is answered the next gathers, so that load makes batches larger, and not the queue longer. */
const mostUnderWay = 2;

/** Gathers the steps of one turn of the event loop into one script, as the embedded engine gathers them into a transaction. */
export function createGroupCommit(base: string, { send, committed }: GroupCommitHooks): GroupCommit {
  let queue: Pending[] = [];
  let underWay = 0;
  let scheduled = false;
  let waiters: (() => void)[] = [];

  async function flushOne(batch: readonly Pending[]): Promise<void> {
    const startedAt = performance.now();
    const list: Argument[] = [base];
    pushCommon(list, batch);
    list.push(String(batch.length));
    for (const { step } of batch) for (const argument of step.list) list.push(argument);
    try {
      const results = await send(list);
      committed(performance.now() - startedAt, batch.length);
      for (const [index, { resolve }] of batch.entries()) resolve(results[index] ?? []);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  function flush(): void {
    scheduled = false;
    while (queue.length > 0 && underWay < mostUnderWay) {
      const batch = queue.slice(0, mostSteps);
      queue = queue.slice(mostSteps);
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

function pushCommon(list: Argument[], batch: readonly Pending[]): void {
  const accounts = new Set<string>();
  const plans = new Map<string, string>();
  for (const { step } of batch) {
    if (step.account !== undefined) accounts.add(step.account);
    if (step.plan !== undefined) plans.set(step.plan.digest, step.plan.verdicts);
  }
  list.push(String(accounts.size), ...accounts, String(plans.size));
  for (const [digest, verdicts] of plans) list.push(digest, verdicts);
}

/** Adds operations with their counts to a step's list. */
export function pushOperations(list: Argument[], operations: readonly Operation[]): void {
  list.push(String(operations.length));
  for (const [name, ...rest] of operations) {
    list.push(name, String(rest.length));
    for (const argument of rest) list.push(argument);
  }
}

/** Steps that lose the race this often meet a subject that changes all the time. */
export const mostTries = 50;

export const lostTheRace = (what: string) => new StoreUnavailable(`${what} was changed by others ${mostTries} times over`);
