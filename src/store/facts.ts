import { isTruncated, parseEnvelope } from "../event/envelope.ts";
import { maskText } from "../event/mask.ts";
import type { DeliveryPlan, RouteVerdict } from "../event/plan.ts";
import type { ReceivedEvent } from "../event/received.ts";
import type { RoutedEvent } from "../event/routed-event.ts";
import type { MessageState, RunState, Tracking } from "../event/tracking.ts";
import type { Rules } from "./rules.ts";
import { planningFailed } from "./verdicts.ts";

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
  if (registered === null) return untrackedFacts(subject);
  const { id, reference, metadata } = registered;
  return {
    subject,
    tracked: true,
    id,
    reference,
    metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>),
  };
}

/** The facts of something that was never registered. */
export function untrackedFacts(subject: Facts["subject"]): Facts {
  return { subject, tracked: false, id: null, reference: null, metadata: null };
}

/** Status and error code that routes match. */
export function routedWords({ subject }: ReceivedEvent): { readonly status: string | null; readonly errorCode: string | null } {
  if (subject.type === "message") return { status: subject.status, errorCode: subject.errorCode };
  if (subject.type === "run") return { status: subject.status, errorCode: null };
  return { status: null, errorCode: null };
}

/** Plans an event. One that it fails on goes to no route and says why: it must harm no other. */
export function planEvent(rules: Pick<Rules, "plan" | "failed">, event: RoutedEvent, tracking: Tracking): DeliveryPlan {
  try {
    return rules.plan(event, tracking);
  } catch (error) {
    return setAside(rules, event, error);
  }
}

/** The plan of an event that could not be tracked or planned. */
export function setAside(rules: Pick<Rules, "failed">, event: Parameters<NonNullable<Rules["failed"]>>[1], error: unknown): DeliveryPlan {
  rules.failed?.(error, event);
  return { disposition: "filtered", verdicts: planningFailed, fault: planningFault(error) };
}

/** An error's text may quote what it failed on. */
export function planningFault(error: unknown): string {
  return `could not be planned: ${maskText(error instanceof Error ? error.message : String(error)).slice(0, 300)}`;
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
export function judgeAgain(rules: Pick<Rules, "plan" | "failed">, event: JudgedEvent, facts: Facts): readonly RouteVerdict[] | null {
  const parsed = parseEnvelope(event.body);
  if (!parsed.ok) return null;
  const { envelope } = parsed;
  const { account, source, status, errorCode, previousStatus, moved } = event;
  return planEvent(
    rules,
    { event: envelope.event, account, source, status, errorCode, data: envelope.data, truncated: isTruncated(envelope) },
    { ...facts, previousStatus, status, errorCode, transition: moved && status !== null ? { from: previousStatus, to: status } : null },
  ).verdicts;
}

/**
 * What the routes make of a truncated event once all is known that will be known: nothing of any message. An event
 * whose body is no envelope goes to every route that held it back.
 */
export function judgeTruncated(
  rules: Pick<Rules, "plan" | "failed">,
  { account, source, body }: Pick<JudgedEvent, "account" | "source" | "body">,
): readonly RouteVerdict[] | null {
  const parsed = parseEnvelope(body);
  if (!parsed.ok) return null;
  const { event, data } = parsed.envelope;
  return planEvent(rules, { event, account, source, status: null, errorCode: null, data, truncated: true }, nothingTracked).verdicts;
}
