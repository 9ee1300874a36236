import { isStatus, messageStatuses, runStatuses, type StatusRule, supersedes } from "../model/statuses.ts";
import type { MessageState, Observation, RunState, Step, TrackedState } from "../model/tracking.ts";

/** Promise 4 (docs/concepts/message-states.md). Returns the given `state` object when nothing changed. */
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
    state: { status: moves ? status : state.status, error, times: isEarlier ? { ...state.times, [status]: at } : state.times },
    transition: moves ? { from: state.status, to: status } : null,
  };
}
