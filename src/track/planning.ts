import { isTruncated } from "../model/envelope.ts";
import { readContent } from "../model/formats/formats.ts";
import { maskText } from "../model/mask.ts";
import type { DeliveryPlan, RoutedEvent, RouteVerdict } from "../model/plan.ts";
import type { Tracking } from "../model/tracking.ts";

/** The registered facts of a message or run, as routes match them. */
export type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

export function untrackedFacts(subject: Facts["subject"]): Facts {
  return { subject, tracked: false, id: null, reference: null, metadata: null };
}

export const nothingTracked: Tracking = {
  ...untrackedFacts("none"),
  previousStatus: null,
  status: null,
  errorCode: null,
  transition: null,
};

/** `registered`: null when it was never registered. `metadata` is a JSON object. */
export function factsOf(
  subject: "message" | "run",
  registered: { readonly id: string | null; readonly reference: string | null; readonly metadata: string | null } | null,
): Facts {
  if (registered === null) return untrackedFacts(subject);
  const { id, reference, metadata } = registered;
  return { subject, tracked: true, id, reference, metadata: metadata === null ? null : (JSON.parse(metadata) as Record<string, unknown>) };
}

export interface Planner {
  plan(event: RoutedEvent, tracking: Tracking): DeliveryPlan;
  /** Reports an event that `plan` or tracking failed on, and that is set aside. */
  failed?(error: unknown, event: Pick<RoutedEvent, "event" | "account" | "source">): void;
}

export interface Arrival {
  readonly event: RoutedEvent;
  readonly tracking: Tracking;
  /** Why tracking failed. Undefined: it did not. */
  readonly error?: unknown;
  /** Earlier events of its message are still being released. */
  readonly isBehind: boolean;
  /** The exchange that a `mode: proxy` source makes at once, planned as a delivery that no dispatcher picks up. */
  readonly proxyRoute: string | null;
}

/** One that tracking or planning fails on is set aside with the reason and does not affect others. */
export function planArrival(planner: Planner, { event, tracking, error, isBehind, proxyRoute }: Arrival): DeliveryPlan {
  let plan = error === undefined ? planEvent(planner, event, tracking) : setAside(planner, event, error);
  if (isBehind) plan = holdBehind(plan, planEvent(planner, event, { ...tracking, ...untrackedFacts(tracking.subject) }));
  if (proxyRoute === null) return plan;
  return { ...plan, disposition: "routed", verdicts: [{ route: proxyRoute, verdict: "deliver" }, ...plan.verdicts] };
}

/**
 * A route that parked earlier events of the message parks this one too, or it would overtake them. `unregistered`: its plan
 * without a registration.
 */
function holdBehind(plan: DeliveryPlan, unregistered: DeliveryPlan): DeliveryPlan {
  const verdicts = plan.verdicts.map((verdict, index) => {
    const before = unregistered.verdicts[index];
    return verdict.verdict === "deliver" && before?.verdict === "park" ? before : verdict;
  });
  const has = (word: RouteVerdict["verdict"]): boolean => verdicts.some(({ verdict }) => verdict === word);
  return { ...plan, disposition: has("deliver") ? "routed" : has("park") ? "parked" : plan.disposition, verdicts };
}

function planEvent(planner: Planner, event: RoutedEvent, tracking: Tracking): DeliveryPlan {
  try {
    return planner.plan(event, tracking);
  } catch (error) {
    return setAside(planner, event, error);
  }
}

function setAside(planner: Planner, event: RoutedEvent, error: unknown): DeliveryPlan {
  planner.failed?.(error, event);
  return { disposition: "filtered", verdicts: planningFailed, fault: planningFault(error) };
}

/** Masked, because the text of an error may quote the event. */
export function planningFault(error: unknown): string {
  return `could not be planned: ${maskText(error instanceof Error ? error.message : String(error)).slice(0, 300)}`;
}

export const planningFailed: readonly RouteVerdict[] = Object.freeze([]);

/** Of what a format reads, only statuses wait for a registration: nobody registers messages that come in. */
export const parking = (format: string | null, kind: string): Pick<RoutedEvent, "parks"> =>
  format === null || kind === "message.status" ? {} : { parks: false };

/** A stored event as routes match it again. */
export interface StoredEvent {
  readonly account: string;
  readonly source: string;
  /** Null or absent: `standard`. */
  readonly format?: string | null;
  readonly body: Buffer;
  readonly status: string | null;
  readonly previousStatus: string | null;
  readonly errorCode: string | null;
  /** True when it was a transition. */
  readonly moved: boolean;
}

/** By the current routes and facts. Null: its body is not an envelope. */
export function replan(planner: Planner, event: StoredEvent, facts: Facts): readonly RouteVerdict[] | null {
  const format = event.format ?? null;
  const content = readContent(format, event.body);
  if (content === null) return null;
  const { account, source, status, errorCode, previousStatus, moved } = event;
  return planEvent(
    planner,
    {
      event: content.event,
      account,
      source,
      status,
      errorCode,
      data: content.data,
      truncated: isTruncated(content),
      ...parking(format, content.event),
    },
    { ...facts, previousStatus, status, errorCode, transition: moved && status !== null ? { from: previousStatus, to: status } : null },
  ).verdicts;
}

/** Of an event whose hydration has ended without its message. Null: its body is not an envelope. */
export function planTruncated(
  planner: Planner,
  event: Pick<StoredEvent, "account" | "source" | "format" | "body">,
): readonly RouteVerdict[] | null {
  return replan(planner, { ...event, status: null, errorCode: null, previousStatus: null, moved: false }, nothingTracked);
}
