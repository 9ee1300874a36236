import { isTruncated } from "../model/envelope.ts";
import { readContent } from "../model/formats/formats.ts";
import { faultText } from "../model/mask.ts";
import {
  type DeliveryPlan,
  type Disposition,
  type KeptVerdict,
  type RoutedEvent,
  type RouteVerdict,
  verdictOf,
} from "../model/states.ts";
import type { Tracking } from "../model/tracking.ts";

export type Facts = Pick<Tracking, "subject" | "tracked" | "id" | "reference" | "metadata">;

function untrackedFacts(subject: Facts["subject"]): Facts {
  return { subject, tracked: false, id: null, reference: null, metadata: null };
}

export const nothingTracked: Tracking = {
  ...untrackedFacts("none"),
  previousStatus: null,
  status: null,
  errorCode: null,
  transition: null,
};

/** `registered`: null when never. `metadata` is a JSON object. */
export function factsOf(
  subject: "message" | "run",
  registered: {
    readonly id: string | null;
    readonly reference: string | null;
    readonly metadata: string | null;
  } | null,
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

export interface Planner {
  plan(event: RoutedEvent, tracking: Tracking): DeliveryPlan;
  /** An event that `plan` or tracking failed on is set aside. */
  failed?(error: unknown, event: Pick<RoutedEvent, "event" | "account" | "source">): void;
}

export interface Arrival {
  readonly event: RoutedEvent;
  readonly tracking: Tracking;
  readonly error?: unknown;
  /** Of a `mode: proxy` source: no dispatcher picks its delivery up. */
  readonly proxyRoute: string | null;
}

/** A failure does not affect other events. */
export function planArrival(
  planner: Planner,
  { event, tracking, error, proxyRoute }: Arrival,
): DeliveryPlan {
  const plan =
    error === undefined ? planEvent(planner, event, tracking) : setAside(planner, event, error);
  if (proxyRoute === null) return plan;
  return {
    ...plan,
    disposition: "routed",
    verdicts: [{ route: proxyRoute, verdict: "deliver" }, ...plan.verdicts],
  };
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
  return {
    disposition: "filtered",
    verdicts: planningFailed,
    fault: `could not be planned: ${faultText(error)}`,
  };
}

export const planningFailed: readonly RouteVerdict[] = Object.freeze([]);

/** Only statuses wait for a registration: nobody registers messages that come in. */
export const parking = (format: string | null, kind: string): Pick<RoutedEvent, "parks"> =>
  format === null || kind === "message.status" ? {} : { parks: false };

export interface StoredEvent {
  readonly account: string;
  readonly source: string;
  readonly format?: string | null;
  readonly body: Buffer;
  readonly status: string | null;
  readonly previousStatus: string | null;
  readonly errorCode: string | null;
  readonly moved: boolean;
}

/** Null: its body is not an envelope. */
export function replan(
  planner: Planner,
  event: StoredEvent,
  facts: Facts,
): readonly RouteVerdict[] | null {
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
    {
      ...facts,
      previousStatus,
      status,
      errorCode,
      transition: moved && status !== null ? { from: previousStatus, to: status } : null,
    },
  ).verdicts;
}

/** Its hydration has ended without its message. Null: its body is not an envelope. */
export function planTruncated(
  planner: Planner,
  event: Pick<StoredEvent, "account" | "source" | "format" | "body">,
): readonly RouteVerdict[] | null {
  return replan(
    planner,
    { ...event, status: null, errorCode: null, previousStatus: null, moved: false },
    nothingTracked,
  );
}

/* Each of these replaces the `park` verdicts and gives the event its disposition. The other verdicts stay. */

export interface Concluded {
  readonly disposition: Disposition;
  readonly verdicts: readonly RouteVerdict[];
  /** The deliveries to plan now. */
  readonly released: readonly RouteVerdict[];
}

/** Its message was registered. */
export function release(kept: readonly KeptVerdict[], fresh: readonly RouteVerdict[]): Concluded {
  return conclude(kept, verdictIn(fresh), "filtered");
}

export function expire(kept: readonly KeptVerdict[]): Concluded {
  return conclude(kept, (route) => ({ route, verdict: "skip", reason: "untracked" }), "ignored");
}

interface HydrationResult {
  /** Null: all candidates were read. */
  readonly reason: string | null;
  readonly found: number;
  readonly unknown: number;
}

export function isReplaced({ reason, found, unknown }: HydrationResult): boolean {
  return reason === null && found > 0 && unknown === 0;
}

/**
 * Without a replacement. `fresh`: see `planTruncated`; null delivers it to every route that parked
 * it.
 */
export function releaseTruncated(
  kept: readonly KeptVerdict[],
  fresh: readonly RouteVerdict[] | null,
): Concluded {
  return conclude(
    kept,
    fresh === null ? (route) => ({ route, verdict: "deliver" }) : verdictIn(fresh),
    "filtered",
  );
}

export function dropReplaced(kept: readonly KeptVerdict[]): Concluded {
  return conclude(kept, (route) => ({ route, verdict: "skip", reason: "hydrated" }), "filtered");
}

/** `otherwise`: no route gets it. */
function conclude(
  kept: readonly KeptVerdict[],
  again: (route: string) => RouteVerdict,
  otherwise: Disposition,
): Concluded {
  const released: RouteVerdict[] = [];
  const verdicts = kept.map((one): RouteVerdict => {
    const [route, verdict] = one;
    if (verdict !== "park") return verdictOf(one);
    const concluded = again(route);
    released.push(concluded);
    return concluded;
  });
  return {
    disposition: verdicts.some(({ verdict }) => verdict === "deliver") ? "routed" : otherwise,
    verdicts,
    released,
  };
}

/** A removed route is skipped. */
function verdictIn(fresh: readonly RouteVerdict[]): (route: string) => RouteVerdict {
  const byRoute = new Map(fresh.map((verdict) => [verdict.route, verdict]));
  const reason = fresh === planningFailed ? "planning failed" : "route removed";
  return (route) => byRoute.get(route) ?? { route, verdict: "skip", reason };
}

/**
 * After a backfill. A route never gets an event twice (promise 2). `only`: limits new deliveries to
 * one route.
 */
export function addVerdicts(
  kept: readonly KeptVerdict[],
  fresh: readonly RouteVerdict[],
  only: string | undefined,
): { readonly verdicts: readonly RouteVerdict[]; readonly added: readonly RouteVerdict[] } {
  const known = new Map(kept.map((one) => [one[0], verdictOf(one)]));
  const added = fresh.filter(
    ({ route, verdict }) =>
      verdict === "deliver" &&
      (only === undefined || route === only) &&
      known.get(route)?.verdict !== "deliver",
  );
  for (const verdict of added) known.set(verdict.route, verdict);
  return { verdicts: [...known.values()], added };
}
