import { isMessageStatus, type MessageStatus, type RunStatus } from "../event/statuses.ts";
import type { MessageState, RunState, Step } from "../event/tracking.ts";

/*
 * The status of a message (DESIGN.md, promise 4). Rows: the status it has; columns: the status that comes in;
 * a cell: the status after it, `=` where it stays. docs/states.md holds the same table and the reasons, and a
 * test holds that page to this function.
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
 * A word that is none of these moves nothing and leaves no trace here.
 */

/**
 * The life of an outgoing message is a climb: a status moves it only when it stands higher. `failed` stands
 * between `sent` and `delivered` because a message can reach another of the recipient's devices after a failure.
 */
const height: Readonly<Record<Exclude<MessageStatus, "received">, number>> = { pending: 1, sent: 2, failed: 3, delivered: 4, read: 5 };

/** A message of which nothing was seen yet. */
export const newMessage: MessageState = Object.freeze({ status: null, errorCode: null, times: Object.freeze({}) });

/**
 * Applies what one event says of a message.
 *
 * `seen.at` is the event's `createdAt` in unix milliseconds. `seen.status` may be any word; `seen.errorCode`
 * counts only with `failed`. `state` in the result is the very object given when nothing changed.
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
  // An inbound message has no outgoing life, and an outgoing one never becomes inbound.
  if (from === "received" || to === "received") return false;
  return height[to] > height[from];
}

/*
 * The status of an automation run: these words are the relay's own, the service's document shows none.
 * Rows: the status it has; columns: the status that comes in; a cell: the status after it, `=` where it stays.
 * docs/states.md holds the same table, and a test holds that page to this function.
 *
 * |           | started | completed | failed |
 * |-----------|---------|-----------|--------|
 * | (none)    | started | completed | failed |
 * | started   | =       | completed | failed |
 * | completed | =       | =         | =      |
 * | failed    | =       | =         | =      |
 */

/** A run of which nothing was seen yet. */
export const newRun: RunState = Object.freeze({ status: null, error: null, times: Object.freeze({}) });

/**
 * Applies what was seen of a run: that it was started (a registration), or an event that ends it.
 *
 * `seen.at` is in unix milliseconds (the event's `createdAt`, or when the run was started). `seen.error` counts
 * only with `failed`. `state` in the result is the very object given when nothing changed.
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
