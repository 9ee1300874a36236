import type { TrackedSubject } from "../model/event.ts";
import type { HydrationStart } from "../model/hydration.ts";
import type { MessageState, Observation, RunState, Step, TrackedState, Tracking } from "../model/tracking.ts";
import type { Facts, Planner } from "../track/planning.ts";
import { type Conflicts, conflictError } from "../track/registration.ts";

/**
 * The pure functions of tracking and routing that the store calls within its own step, so that tracking and planning are
 * atomic. `plan` and the two settings change when the settings are reloaded.
 */
export interface Rules extends Planner {
  stepMessage(state: MessageState, seen: Observation): Step<MessageState>;
  stepRun(state: RunState, seen: Observation): Step<RunState>;
  /** How the hydration of a truncated event begins. Null: it needs none. */
  hydration(event: { readonly event: string; readonly account: string; readonly hasSubject: boolean }): HydrationStart | null;
  /** Whether the route delivers the events of a message in order, and the wait before a first attempt in ms. */
  timing(route: string): { readonly ordered: boolean; readonly firstWait: number };
  /** How long an event may stay parked, in milliseconds. */
  readonly parkFor: number;
}

/** A waiting delivery and when it is due. `event` is the event's seq, `at` unix ms. */
export interface DueDelivery {
  readonly route: string;
  readonly event: number;
  readonly at: number;
  /** By which it is loaded and settled. */
  readonly lane: number;
}

export type AcceptOutcome =
  | { readonly result: "accepted"; readonly seq: number; readonly disposition: string; readonly due: readonly DueDelivery[] }
  /** `conflict`: the id is known with other bytes. */
  | { readonly result: "duplicate"; readonly seq: number; readonly conflict: boolean };

export type Registered =
  | { readonly result: "created" | "known"; readonly due: readonly DueDelivery[] }
  | { readonly result: "conflict"; readonly conflicts: Conflicts };

/**
 * Applies an event to the state of its message or run, whose registered facts are `facts`. `at` is the event's own time in
 * unix ms. Returns the same `state` object when nothing changed.
 */
export function stepSubject(
  rules: Pick<Rules, "stepMessage" | "stepRun">,
  subject: TrackedSubject,
  before: TrackedState<string>,
  facts: Facts,
  at: number,
): { readonly state: TrackedState<string>; readonly tracking: Tracking } {
  const { status } = subject;
  const isMessage = subject.type === "message";
  const { state, transition }: Step<TrackedState<string>> = isMessage
    ? rules.stepMessage(before as MessageState, { status, error: subject.errorCode, at })
    : rules.stepRun(before as RunState, { status, error: subject.error, at });
  const errorCode = isMessage ? state.error : null;
  return { state, tracking: { ...facts, previousStatus: before.status, status: state.status, errorCode, transition } };
}

/** The result of a list that is registered completely or not at all. Throws a `conflict` when one contradicts what is stored. */
export function sumRegistered(all: readonly Registered[]): { readonly created: number; readonly due: readonly DueDelivery[] } {
  const due: DueDelivery[] = [];
  let created = 0;
  for (const [index, registered] of all.entries()) {
    if (registered.result === "conflict") throw conflictError(registered.conflicts, all.length > 1 ? index : undefined);
    if (registered.result === "created") created += 1;
    due.push(...registered.due);
  }
  return { created, due };
}
