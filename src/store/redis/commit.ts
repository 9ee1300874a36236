import { StoreUnavailable } from "../store-error.ts";
import type { PlanText } from "./plan-texts.ts";

export type Argument = string | Buffer;

/** One operation of lua/commit.lua with what it is given. */
export type Operation = readonly [name: string, ...list: Argument[]];

/** A step that is whole or not at all, as lua/commit.lua reads it. What it has in common with others of its batch is sent once. */
export interface Step {
  /** Begins with its kind, unless it has a form. */
  readonly list: readonly Argument[];
  readonly form?: Form;
  readonly account?: string;
  readonly plan?: PlanText;
  /** What proved it, and when it came (unix ms). */
  readonly proof?: { readonly name: string; readonly at: number };
  /** Names (keys without the base) of strings that it will look at. */
  readonly looked?: readonly string[];
}

/** What is done with an event: accepted, tracked and planned; only accepted (written down); tracked and planned in its turn. */
export type EventKind = "A" | "W" | "P";

export interface Form {
  readonly kind: EventKind;
  /** Empty: none. */
  readonly proof: string;
  /** Routes that get a delivery. */
  readonly routes: readonly string[];
  /** More than the usual is told of it. */
  readonly isRare: boolean;
}

/** A text of an event with which it was done, of everything else a list. */
export type StepResult = string | readonly unknown[];

export interface GroupCommit {
  /** Sends the step with others of its turn; resolves with what the script gave for it, once Redis has it. Rejects with `StoreUnavailable`. */
  run(step: Step): Promise<StepResult>;
  /** Resolves when everything handed in so far is answered. */
  idle(): Promise<void>;
}

export interface GroupCommitHooks {
  /** Runs the script over a batch as `writeBatch` makes it; rejects with `StoreUnavailable` when that is not possible. */
  send(list: Argument[]): Promise<readonly StepResult[]>;
  committed(tookMs: number, writes: number): void;
}

interface Pending {
  readonly step: Step;
  readonly resolve: (result: StepResult) => void;
  readonly reject: (error: unknown) => void;
}

/** Steps in a batch: Redis does nothing else while it runs one, some 50 µs for each. */
const mostSteps = 200;
/**
 * Below that a batch is the fourth part of what waits, but this at least: answers to the first come while Redis has the
 * next, so that neither of the two stands still for the other (a quarter more events, bench/ingest).
 */
const fewSteps = 16;
/** Batches under way: beyond that, load makes batches larger, and not the queue longer. */
const mostUnderWay = 3;

/** Gathers the steps of one turn of the event loop into one script, as the embedded engine gathers them into a transaction. */
export function createGroupCommit(base: string, { send, committed }: GroupCommitHooks): GroupCommit {
  let queue: Pending[] = [];
  let underWay = 0;
  let scheduled = false;
  let waiters: (() => void)[] = [];

  async function flushOne(batch: readonly Pending[]): Promise<void> {
    const startedAt = performance.now();
    try {
      const results = await send(writeBatch(base, batch));
      committed(performance.now() - startedAt, batch.length);
      for (let n = 0; n < batch.length; n++) batch[n]?.resolve(results[n] ?? []);
    } catch (error) {
      for (const { reject } of batch) reject(error);
    }
  }

  function flush(): void {
    scheduled = false;
    while (queue.length > 0 && underWay < mostUnderWay) {
      const size = Math.min(mostSteps, Math.max(fewSteps, Math.ceil(queue.length / 4)));
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

/**
 * A batch as lua/commit.lua takes it: `[base, …accounts, …plans, …proofs, …forms, …looked, …steps]`, each after its length.
 * An argument costs Redis a third of a write of its own, whatever its length: hence all that is sent once.
 */
function writeBatch(base: string, batch: readonly Pending[]): Argument[] {
  const accounts = new Set<string>();
  const plans = new Map<string, string>();
  const proofs = new Map<string, { first: number; last: number }>();
  const forms = new Map<string, { readonly form: Form; readonly number: string }>();
  const looked: string[] = [];
  const steps: Argument[] = [];
  for (const { step } of batch) {
    const { form, proof } = step;
    if (step.account !== undefined) accounts.add(step.account);
    if (step.plan !== undefined) plans.set(step.plan.digest, step.plan.verdicts);
    if (step.looked !== undefined) for (const name of step.looked) looked.push(name);
    if (proof !== undefined) {
      const known = proofs.get(proof.name);
      if (known === undefined) proofs.set(proof.name, { first: proof.at, last: proof.at });
      else {
        known.first = Math.min(known.first, proof.at);
        known.last = Math.max(known.last, proof.at);
      }
    }
    if (form !== undefined) {
      const key = `${form.kind}${form.isRare ? "1" : ""}\n${form.proof}\n${form.routes.join("\n")}`;
      let known = forms.get(key);
      if (known === undefined) {
        known = { form, number: String(forms.size + 1) };
        forms.set(key, known);
      }
      steps.push(known.number);
    }
    for (const argument of step.list) steps.push(argument);
  }

  const list: Argument[] = [base, String(accounts.size), ...accounts, String(plans.size)];
  for (const [digest, verdicts] of plans) list.push(digest, verdicts);
  list.push(String(proofs.size));
  for (const [name, { first, last }] of proofs) list.push(name, String(first), String(last));
  list.push(String(forms.size));
  for (const { form } of forms.values())
    list.push(form.kind, form.proof, form.isRare ? "1" : "", String(form.routes.length), ...form.routes);
  list.push(String(looked.length));
  return list.concat(looked, String(batch.length), steps);
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
