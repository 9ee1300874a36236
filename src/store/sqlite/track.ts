import type { ReceivedEvent } from "../../event/received.ts";
import type { MessageState, RunState, Tracking } from "../../event/tracking.ts";
import type { Rules } from "../rules.ts";
import { messageSubject, runSubject, type SubjectKey } from "./codes.ts";
import { type MessageRow, type Messages, stateOf } from "./messages.ts";
import { type RunRow, type Runs, runStateOf } from "./runs.ts";

const unseenMessage: MessageState = { status: null, errorCode: null, times: {} };
const unseenRun: RunState = { status: null, error: null, times: {} };

export interface Tracked {
  readonly subject: SubjectKey | null;
  readonly tracking: Tracking;
}

/** What tracking knows of an event that is about neither a message nor a run. */
export const nothingTracked: Tracking = {
  subject: "none",
  tracked: false,
  id: null,
  reference: null,
  metadata: null,
  previousStatus: null,
  status: null,
  errorCode: null,
  transition: null,
};
const nothing: Tracked = { subject: null, tracking: nothingTracked };

/** Applies an event to its message or run, inside the accepting transaction. */
export function createTrack(messages: Messages, runs: Runs, rules: Rules) {
  return function track(account: number, event: ReceivedEvent, at: number): Tracked {
    const { subject, receivedAt } = event;
    if (subject.type === "message") {
      const row = messages.find(account, subject.wamid);
      const before = row === undefined ? unseenMessage : stateOf(row);
      const { state, transition } = rules.stepMessage(before, { status: subject.status, errorCode: subject.errorCode, at });
      let seq: number;
      if (row === undefined) seq = messages.add(account, subject.wamid, state, null, receivedAt);
      else {
        seq = row.seq;
        if (state !== before) messages.save(seq, state, receivedAt);
      }
      return {
        subject: messageSubject(seq),
        tracking: { ...messageFacts(row), previousStatus: before.status, status: state.status, errorCode: state.errorCode, transition },
      };
    }
    if (subject.type === "run") {
      const row = runs.find(account, subject.runId);
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
        tracking: { ...runFacts(row), previousStatus: before.status, status: state.status, errorCode: null, transition },
      };
    }
    return nothing;
  };
}

type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

/** What registration told of a message; nothing when it was never registered. */
export function messageFacts(row: MessageRow | undefined): Facts {
  if (row === undefined || row.registered_at === null)
    return { subject: "message", tracked: false, id: null, reference: null, metadata: null };
  return { subject: "message", tracked: true, id: row.service_id, reference: row.reference, metadata: parseMetadata(row.metadata) };
}

export function runFacts(row: RunRow | undefined): Facts {
  if (row === undefined || row.registered_at === null) return { subject: "run", tracked: false, id: null, reference: null, metadata: null };
  return { subject: "run", tracked: true, id: null, reference: row.reference, metadata: parseMetadata(row.metadata) };
}

function parseMetadata(text: string | null): Readonly<Record<string, unknown>> | null {
  return text === null ? null : (JSON.parse(text) as Record<string, unknown>);
}
