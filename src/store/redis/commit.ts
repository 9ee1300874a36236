import { StoreUnavailable } from "../port.ts";
import type { PlanText } from "./event-rows.ts";
import type { GroupCommit } from "./group-commit.ts";
import type { Argument } from "./script.ts";

/** An operation of lua/commit.lua: its name there, and its arguments. */
export type Operation = readonly [name: string, ...list: Argument[]];

/** An atomic step, as lua/commit.lua reads it. What the steps of a batch have in common is sent once. */
export interface Step {
  /** Begins with its kind, unless it has a form. */
  readonly list: readonly Argument[];
  readonly form?: Form;
  readonly account?: string;
  readonly plan?: PlanText;
  /** Number of operations, if the step consists of them. */
  readonly operations?: number;
  /** Size of the body stored with it, if large. */
  readonly bytes?: number;
  /** The secret that verified the event, and when it was received (unix ms). */
  readonly usage?: { readonly name: string; readonly at: number };
  /** Names (keys without the base) of the strings that the step reads. */
  readonly reads?: readonly string[];
}

/** Changes of the history: the end of a key, a field and a number each, in one flat list (history.ts). */
export type Counts = readonly string[];

/** `A` accepts, tracks and plans an event; `P` tracks and plans one that was accepted before; `D` settles one as delivered. */
type FormKind = "A" | "P" | "D";

export interface Form {
  readonly kind: FormKind;
  /** Empty: none. The holder of the claim when it is delivered. */
  readonly usage: string;
  /** Routes that get a delivery, or the one that delivered. */
  readonly routes: readonly string[];
  /** What a step changes in the history. */
  readonly counts: Counts;
  /** The step has a sample for a histogram of the history. */
  readonly isTimed: boolean;
  /** The step has the arguments of rare cases too. */
  readonly isRare: boolean;
}

/** A text for a stored or planned event, a list for everything else. */
export type StepResult = string | readonly unknown[];

/** The seq at the start of that text. */
export function seqIn(result: string): number {
  const end = result.indexOf(" ");
  return Number(end < 0 ? result : result.slice(0, end));
}

/** Steps of all kinds, in batches. */
export type Commit = GroupCommit<Step, StepResult>;

/**
 * A batch as lua/commit.lua reads it: `[base, …accounts, …plans, …usages, …forms, …reads, …steps]`, each after its length.
 * An argument costs Redis a third of a write, whatever its length, so shared values are sent once.
 */
export function writeBatch(base: string, batch: readonly Step[]): Argument[] {
  const accounts = new Set<string>();
  const plans = new Map<string, string>();
  const usages = new Map<string, { first: number; last: number }>();
  const forms = new Map<string, { readonly form: Form; readonly number: string }>();
  const reads: string[] = [];
  const steps: Argument[] = [];
  for (const step of batch) {
    const { form, usage } = step;
    if (step.account !== undefined) accounts.add(step.account);
    if (step.plan !== undefined) plans.set(step.plan.digest, step.plan.verdicts);
    if (step.reads !== undefined) for (const name of step.reads) reads.push(name);
    if (usage !== undefined) {
      const known = usages.get(usage.name);
      if (known === undefined) usages.set(usage.name, { first: usage.at, last: usage.at });
      else {
        known.first = Math.min(known.first, usage.at);
        known.last = Math.max(known.last, usage.at);
      }
    }
    if (form !== undefined) {
      const flags = (form.isRare ? 1 : 0) + (form.isTimed ? 2 : 0);
      const key = `${form.kind}${flags}\n${form.usage}\n${form.routes.join("\n")}\n${form.counts.join("\n")}`;
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
  list.push(String(usages.size));
  for (const [name, { first, last }] of usages) list.push(name, String(first), String(last));
  list.push(String(forms.size));
  for (const { form } of forms.values()) {
    const { kind, usage, isRare, isTimed, routes, counts } = form;
    list.push(kind, usage, isRare ? "1" : "", isTimed ? "1" : "", String(routes.length), ...routes, String(counts.length), ...counts);
  }
  list.push(String(reads.length));
  return list.concat(reads, String(batch.length), steps);
}

/** Appends operations with their counts to a step's arguments. */
export function pushOperations(list: Argument[], operations: readonly Operation[]): void {
  list.push(String(operations.length));
  for (const [name, ...rest] of operations) {
    list.push(name, String(rest.length));
    for (const argument of rest) list.push(argument);
  }
}

/** Tries of a step before it fails: a row that changes this often changes all the time. */
export const mostTries = 50;

export const lostTheRace = (what: string) => new StoreUnavailable(`${what} was changed by others ${mostTries} times over`);
