import type { ReceivedEvent } from "../../event/received.ts";
import type { Tracking } from "../../event/tracking.ts";
import { type Facts, factsOf, nothingTracked, unseenMessage, unseenRun } from "../facts.ts";
import type { Rules } from "../rules.ts";
import { messageSubject, runSubject, type SubjectKey } from "./codes.ts";
import { isSqliteFault } from "./faults.ts";
import { type MessageRow, type Messages, stateOf } from "./messages.ts";
import { type RunRow, type Runs, runStateOf } from "./runs.ts";

export interface Tracked {
  readonly subject: SubjectKey | null;
  readonly tracking: Tracking;
  /** What tracking failed with: nothing has moved. */
  readonly error?: unknown;
}

const nothing: Tracked = { subject: null, tracking: nothingTracked };

/** Applies an event to its message or run, inside the accepting transaction. */
export function createTrack(messages: Messages, runs: Runs, rules: Rules) {
  return function track(account: number, event: ReceivedEvent, at: number): Tracked {
    try {
      return apply(account, event, at);
    } catch (error) {
      // What the database refuses is not this event's fault.
      if (isSqliteFault(error)) throw error;
      return { subject: seen(account, event), tracking: nothingTracked, error };
    }
  };

  /** The message or run, as it was or as one that was seen now. */
  function seen(account: number, { subject, receivedAt }: ReceivedEvent): SubjectKey | null {
    if (subject.type === "message")
      return messageSubject(
        messages.find(account, subject.wamid)?.seq ?? messages.add(account, subject.wamid, unseenMessage, null, receivedAt),
      );
    if (subject.type === "run")
      return runSubject(runs.find(account, subject.runId)?.seq ?? runs.add(account, subject.runId, unseenRun, receivedAt));
    return null;
  }

  function apply(account: number, event: ReceivedEvent, at: number): Tracked {
    const { subject, receivedAt } = event;
    if (subject.type === "message") {
      const row = messages.find(account, subject.wamid);
      const facts = messageFacts(row);
      const before = row === undefined ? unseenMessage : stateOf(row);
      const { state, transition } = rules.stepMessage(before, { status: subject.status, errorCode: subject.errorCode, at });
      let seq: number;
      if (row === undefined) seq = messages.add(account, subject.wamid, state, null, receivedAt);
      else {
        seq = row.seq;
        messages.revive(row);
        if (state !== before) messages.save(seq, state, receivedAt);
      }
      return {
        subject: messageSubject(seq),
        tracking: { ...facts, previousStatus: before.status, status: state.status, errorCode: state.errorCode, transition },
      };
    }
    if (subject.type === "run") {
      const row = runs.find(account, subject.runId);
      const facts = runFacts(row);
      const before = row === undefined ? unseenRun : runStateOf(row);
      const { state, transition } = rules.stepRun(before, { status: subject.status, error: subject.error, at });
      let seq: number;
      if (row === undefined) seq = runs.add(account, subject.runId, state, receivedAt);
      else {
        seq = row.seq;
        if (state !== before) runs.save(seq, state, receivedAt);
      }
      return {
        subject: runSubject(seq),
        tracking: { ...facts, previousStatus: before.status, status: state.status, errorCode: null, transition },
      };
    }
    return nothing;
  }
}

/** What registration told of a message; nothing when it was never registered. */
export function messageFacts(row: MessageRow | undefined): Facts {
  const registered = row === undefined || row.registered_at === null ? null : row;
  return factsOf(
    "message",
    registered === null ? null : { id: registered.service_id, reference: registered.reference, metadata: registered.metadata },
  );
}

export function runFacts(row: RunRow | undefined): Facts {
  const registered = row === undefined || row.registered_at === null ? null : row;
  return factsOf("run", registered === null ? null : { id: null, reference: registered.reference, metadata: registered.metadata });
}
