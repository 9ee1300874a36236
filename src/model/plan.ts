import type { RouteName } from "./ids.ts";

/** What routing reads of an event. */
export interface RoutedEvent {
  /** Event kind, e.g. `message.status`. */
  readonly event: string;
  readonly account: string;
  readonly source: string;
  /** The status word the event itself carries, whatever tracking made of it. */
  readonly status: string | null;
  /** The error code the event itself carries, as text. */
  readonly errorCode: string | null;
  /** The event's `data`, parsed. */
  readonly data: unknown;
  /** True when the service sent the event without its data. */
  readonly truncated: boolean;
  /** True while the service is being asked what a truncated event was about; not given: it is not. */
  readonly hydrating?: boolean;
}

/**
 * The one final word on an event. `accepted` and `parked` are not final. A parked event becomes
 * `routed` when its wamid is registered in time, or `filtered` if the reference or metadata then do
 * not match; else `ignored`. An accepted one is stored and waits for a worker to plan it (Redis engine
 * only), which gives it one of the others, `quarantined` excepted. A quarantined body that becomes an event after all is
 * `released`; that event has a word of its own.
 *
 * Stores keep a word as its place in this list: new ones go to the end.
 */
export const dispositions = ["routed", "filtered", "ignored", "quarantined", "parked", "accepted", "released"] as const;
export type Disposition = (typeof dispositions)[number];

/** What one route does with an event; `reason` names the first criterion of `match` that said no. */
export type RouteVerdict =
  | { readonly route: RouteName; readonly verdict: "deliver" }
  | { readonly route: RouteName; readonly verdict: "park" }
  | { readonly route: RouteName; readonly verdict: "skip"; readonly reason: string };

export interface DeliveryPlan {
  readonly disposition: Disposition;
  /** One per route, in the order of the settings. */
  readonly verdicts: readonly RouteVerdict[];
  /** Why the event could not be tracked or planned: it is set aside, goes to no route, and can be replayed. */
  readonly fault?: string;
}
