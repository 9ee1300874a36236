import { isTruncated, parseEnvelope } from "../event/envelope.ts";
import type { RouteVerdict } from "../event/plan.ts";
import type { ReceivedEvent } from "../event/received.ts";
import type { MessageState, RunState, Tracking } from "../event/tracking.ts";
import type { Rules } from "./rules.ts";

/** The part of tracking that registration told. */
export type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

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

export const unseenMessage: MessageState = { status: null, errorCode: null, times: {} };
export const unseenRun: RunState = { status: null, error: null, times: {} };

/** `registered`: null when it was never registered; `metadata` is a JSON object. */
export function factsOf(
  subject: "message" | "run",
  registered: { readonly id: string | null; readonly reference: string | null; readonly metadata: string | null } | null,
): Facts {
  if (registered === null) return { subject, tracked: false, id: null, reference: null, metadata: null };
  const { id, reference, metadata } = registered;
  return {
    subject,
    tracked: true,
    id,
    reference,
    metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>),
  };
}

/** Status and error code that routes match. */
export function routedWords({ subject }: ReceivedEvent): { readonly status: string | null; readonly errorCode: string | null } {
  if (subject.type === "message") return { status: subject.status, errorCode: subject.errorCode };
  if (subject.type === "run") return { status: subject.status, errorCode: null };
  return { status: null, errorCode: null };
}

/** A stored event, as far as routes judge it again. */
export interface JudgedEvent {
  readonly account: string;
  readonly source: string;
  readonly body: Buffer;
  readonly status: string | null;
  readonly previousStatus: string | null;
  readonly errorCode: string | null;
  /** True when it was a transition. */
  readonly moved: boolean;
}

/** What the routes of today make of a stored event, with what is known today; null: its body is no envelope. */
export function judgeAgain(rules: Pick<Rules, "plan">, event: JudgedEvent, facts: Facts): readonly RouteVerdict[] | null {
  const parsed = parseEnvelope(event.body);
  if (!parsed.ok) return null;
  const { envelope } = parsed;
  const { account, source, status, errorCode, previousStatus, moved } = event;
  return rules.plan(
    { event: envelope.event, account, source, status, errorCode, data: envelope.data, truncated: isTruncated(envelope) },
    { ...facts, previousStatus, status, errorCode, transition: moved && status !== null ? { from: previousStatus, to: status } : null },
  ).verdicts;
}

/**
 * What the routes make of a truncated event once all is known that will be known: nothing of any message. An event
 * whose body is no envelope goes to every route that held it back.
 */
export function judgeTruncated(
  rules: Pick<Rules, "plan">,
  { account, source, body }: Pick<JudgedEvent, "account" | "source" | "body">,
): readonly RouteVerdict[] | null {
  const parsed = parseEnvelope(body);
  if (!parsed.ok) return null;
  const { event, data } = parsed.envelope;
  return rules.plan({ event, account, source, status: null, errorCode: null, data, truncated: true }, nothingTracked).verdicts;
}
