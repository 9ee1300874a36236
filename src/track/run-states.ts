import type { RunStatus } from "../event/statuses.ts";
import type { RunState, Step } from "../event/tracking.ts";

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
