import { isMessageStatus, type MessageStatus, type RunStatus } from "../model/statuses.ts";
import type { MessageState, RunState, Step } from "../model/tracking.ts";

/*
 * The status of a message (DESIGN.md, promise 4). Rows: the status it has; columns: the status that comes in;
 * a cell: the status after it, `=` where it stays. docs/states.md has the same table and the reasons. A test compares both
 * with this function.
 *
 * |           | pending | sent | failed | delivered | read | received |
 * |-----------|---------|------|--------|-----------|------|----------|
 * | (none)    | pending | sent | failed | delivered | read | received |
 * | pending   | =       | sent | failed | delivered | read | =        |
 * | sent      | =       | =    | failed | delivered | read | =        |
 * | failed    | =       | =    | =      | delivered | read | =        |
 * | delivered | =       | =    | =      | =         | read | =        |
 * | read      | =       | =    | =      | =         | =    | =        |
 * | received  | =       | =    | =      | =         | =    | =        |
 *
 * Any other word changes nothing.
 */

/**
 * A status moves an outgoing message only when its rank is higher. `failed` ranks between `sent` and `delivered`, because a
 * message can reach another of the recipient's devices after a failure.
 */
const rank: Readonly<Record<Exclude<MessageStatus, "received">, number>> = { pending: 1, sent: 2, failed: 3, delivered: 4, read: 5 };

/** A message that was not observed yet. */
export const newMessage: MessageState = Object.freeze({ status: null, errorCode: null, times: Object.freeze({}) });

/**
 * Applies one observation of a message.
 *
 * `seen.at` is the event's `createdAt` in unix milliseconds. `seen.status` may be any word; `seen.errorCode`
 * counts only with `failed`. Returns the given `state` object when nothing changed.
 */
export function stepMessage(
  state: MessageState,
  seen: { status: string | null; errorCode: string | null; at: number },
): Step<MessageState> {
  const word = seen.status;
  if (word === null || !isMessageStatus(word)) return { state, transition: null };
  const moves = movesMessage(state.status, word);
  const errorCode = (word === "failed" && seen.errorCode) || state.errorCode;
  const known = state.times[word];
  const earlier = known === undefined || seen.at < known;
  if (!moves && !earlier && errorCode === state.errorCode) return { state, transition: null };
  return {
    state: {
      status: moves ? word : state.status,
      errorCode,
      times: earlier ? { ...state.times, [word]: seen.at } : state.times,
    },
    transition: moves ? { from: state.status, to: word } : null,
  };
}

function movesMessage(from: MessageStatus | null, to: MessageStatus): boolean {
  if (from === null) return true;
  // Inbound and outgoing messages never turn into each other.
  if (from === "received" || to === "received") return false;
  return rank[to] > rank[from];
}

/*
 * The status of an automation run. These statuses are the relay's own; the service documents none.
 * Rows: the status it has; columns: the status that comes in; a cell: the status after it, `=` where it stays.
 * docs/states.md has the same table. A test compares both with this function.
 *
 * |           | started | completed | failed |
 * |-----------|---------|-----------|--------|
 * | (none)    | started | completed | failed |
 * | started   | =       | completed | failed |
 * | completed | =       | =         | =      |
 * | failed    | =       | =         | =      |
 */

/** A run that was not observed yet. */
export const newRun: RunState = Object.freeze({ status: null, error: null, times: Object.freeze({}) });

/**
 * Applies one observation of a run: its start (a registration), or an event that ends it.
 *
 * `seen.at` is in unix milliseconds (the event's `createdAt`, or when the run was started). `seen.error` counts
 * only with `failed`. Returns the given `state` object when nothing changed.
 */
export function stepRun(state: RunState, seen: { status: RunStatus | null; error: string | null; at: number }): Step<RunState> {
  const word = seen.status;
  if (word === null) return { state, transition: null };
  const moves = state.status === null || (state.status === "started" && word !== "started");
  const error = (word === "failed" && seen.error) || state.error;
  const known = state.times[word];
  const earlier = known === undefined || seen.at < known;
  if (!moves && !earlier && error === state.error) return { state, transition: null };
  return {
    state: {
      status: moves ? word : state.status,
      error,
      times: earlier ? { ...state.times, [word]: seen.at } : state.times,
    },
    transition: moves ? { from: state.status, to: word } : null,
  };
}
