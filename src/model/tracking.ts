import type { MessageStatus, RunStatus } from "./statuses.ts";

export interface TrackedState<Status extends string> {
  readonly status: Status | null;
  readonly error: string | null;
  /** The earliest time of each status in unix ms, also of a status that came late and moved nothing. */
  readonly times: Readonly<Record<string, number>>;
}

export type MessageState = TrackedState<MessageStatus>;
export type RunState = TrackedState<RunStatus>;

export const unobserved: TrackedState<never> = Object.freeze({ status: null, error: null, times: Object.freeze({}) });

/** A status as an event, a registration or a poll reports it. `status` may be any word. */
export interface Observation {
  readonly status: string | null;
  readonly error: string | null;
  readonly at: number;
}

interface Transition {
  readonly from: string | null;
  readonly to: string;
}

/** A step of a state machine: the state after it, and the transition, if it was one. `state` is the same object when nothing changed. */
export interface Step<State> {
  readonly state: State;
  readonly transition: Transition | null;
}

/** What tracking knows about an event once it was applied: the input of routing. */
export interface Tracking {
  readonly subject: "message" | "run" | "none";
  readonly tracked: boolean;
  readonly id: string | null;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  /** Status before and after the event; both null when never known. */
  readonly previousStatus: string | null;
  readonly status: string | null;
  readonly errorCode: string | null;
  readonly transition: Transition | null;
}
