import type { MessageStatus, RunStatus } from "./statuses.ts";

/**
 * What is known of a message's status. `times` are unix milliseconds of the first time each status
 * was seen (the event's `createdAt`), kept even for a status that came late and moved nothing.
 */
export interface MessageState {
  readonly status: MessageStatus | null;
  readonly errorCode: string | null;
  readonly times: Readonly<Partial<Record<MessageStatus, number>>>;
}

export interface RunState {
  readonly status: RunStatus | null;
  readonly error: string | null;
  readonly times: Readonly<Partial<Record<RunStatus, number>>>;
}

export interface Transition {
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
  /** True when the user registered the message or run. */
  readonly tracked: boolean;
  /** The service's id of the message, when known. */
  readonly id: string | null;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  /** Status before and after the event; both null when never known. */
  readonly previousStatus: string | null;
  readonly status: string | null;
  readonly errorCode: string | null;
  readonly transition: Transition | null;
}
