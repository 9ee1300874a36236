import { z } from "zod";
import {
  isStatus,
  type MessageStatus,
  messageStatuses,
  type RunStatus,
  runStatuses,
  type StatusRule,
  supersedes,
} from "./statuses.ts";

export interface TrackedState<Status extends string> {
  readonly status: Status | null;
  readonly error: string | null;
  /** The earliest time of each status, also of a status that came late and moved nothing. */
  readonly times: Readonly<Record<string, number>>;
}

export type MessageState = TrackedState<MessageStatus>;
export type RunState = TrackedState<RunStatus>;

export const unobserved: TrackedState<never> = Object.freeze({
  status: null,
  error: null,
  times: Object.freeze({}),
});

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

/**
 * A step of a state machine: the state after it, and the transition, if it was one. `state` is the
 * same object when nothing changed.
 */
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

/** Promise 4 (docs/concepts/message-states.md). */
export function stepMessage(state: MessageState, seen: Observation): Step<MessageState> {
  return step(messageStatuses, state, seen);
}

export function stepRun(state: RunState, seen: Observation): Step<RunState> {
  return step(runStatuses, state, seen);
}

function step<Status extends string>(
  rules: Readonly<Record<Status, StatusRule>>,
  state: TrackedState<Status>,
  { status, error: seenError, at }: Observation,
): Step<TrackedState<Status>> {
  if (!isStatus(rules, status)) return { state, transition: null };
  const moves = supersedes(rules, state.status, status);
  const error = (rules[status].error && seenError) || state.error;
  const known = state.times[status];
  const isEarlier = known === undefined || at < known;
  if (!moves && !isEarlier && error === state.error) return { state, transition: null };
  return {
    state: {
      status: moves ? status : state.status,
      error,
      times: isEarlier ? { ...state.times, [status]: at } : state.times,
    },
    transition: moves ? { from: state.status, to: status } : null,
  };
}

/**
 * Of the metadata of a message or run, which is sent with each delivery with `payload: enriched`.
 * JSON.stringify recurses.
 */
export const metadataLimits = { bytes: 64 * 1024, values: 1000, levels: 16 } as const;

/**
 * What is wrong with metadata; null: nothing. Not recursive, because `JSON.parse` accepts any
 * depth.
 */
export function metadataFault(metadata: Readonly<Record<string, unknown>>): string | null {
  const { bytes, values, levels } = metadataLimits;
  let count = 0;
  let inner: object[] = [metadata];
  for (let level = 1; inner.length > 0; level++) {
    if (level > levels) return `is nested more than ${levels} levels deep`;
    const next: object[] = [];
    for (const holder of inner) {
      for (const value of Object.values(holder)) {
        count += 1;
        if (count > values)
          return `has more than ${values.toLocaleString("en")} keys and list entries`;
        if (typeof value === "object" && value !== null) next.push(value);
      }
    }
    inner = next;
  }
  return Buffer.byteLength(JSON.stringify(metadata)) > bytes
    ? `is longer than ${bytes.toLocaleString("en")} bytes as JSON`
    : null;
}

export const metadataSchema = z.record(z.string(), z.unknown()).superRefine((metadata, context) => {
  const fault = metadataFault(metadata);
  if (fault !== null) context.addIssue({ code: "custom", message: fault });
});
