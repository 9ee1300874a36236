import type { ReceivedEvent } from "../../event/received.ts";
import type { Tracking } from "../../event/tracking.ts";
import { type Facts, type Rules, untrackedFacts } from "../rules.ts";
import { messageName, runName, type SubjectName } from "./keys.ts";
import { messageStateOf, runStateOf, type StoredSubject, unseenSubject, withMessageState, withRunState } from "./rows.ts";

export interface Tracked {
  readonly tracking: Tracking;
  /** The subject's row after the event; null when it stays as it is. */
  readonly next: StoredSubject | null;
}

/** What registration told of a subject; nothing when it was never registered. */
export function factsOf(type: "message" | "run", row: StoredSubject): Facts {
  if (row.registeredAt === null) return untrackedFacts(type);
  const { reference, metadata, serviceId } = row;
  return { subject: type, tracked: true, id: serviceId, reference, metadata: metadata === null ? null : JSON.parse(metadata) };
}

export function subjectNameOf({ account, subject }: ReceivedEvent): SubjectName | null {
  if (subject.type === "message") return messageName(account, subject.wamid);
  return subject.type === "run" ? runName(account, subject.runId) : null;
}

type TrackedPart = Pick<ReceivedEvent, "subject" | "receivedAt">;

/** Applies an event to its message or run; `row` is null when it was never seen. `at` is the event's own time, unix ms. */
export function trackEvent(rules: Rules, event: TrackedPart, row: StoredSubject | null, at: number): Tracked | null {
  const { subject, receivedAt } = event;
  const known = row ?? unseenSubject;
  if (subject.type === "message") {
    const before = messageStateOf(known);
    const { state, transition } = rules.stepMessage(before, { status: subject.status, errorCode: subject.errorCode, at });
    const tracking = { ...factsOf("message", known), previousStatus: before.status, status: state.status };
    return {
      tracking: { ...tracking, errorCode: state.errorCode, transition },
      // An event about a message shows that the service knows it.
      next:
        row !== null && state === before && !known.isMissing ? null : withMessageState({ ...known, isMissing: false }, state, receivedAt),
    };
  }
  if (subject.type === "run") {
    const before = runStateOf(known);
    const { state, transition } = rules.stepRun(before, { status: subject.status, error: subject.error, at });
    const tracking = { ...factsOf("run", known), previousStatus: before.status, status: state.status };
    return {
      tracking: { ...tracking, errorCode: null, transition },
      next: row !== null && state === before ? null : withRunState(known, state, receivedAt),
    };
  }
  return null;
}
