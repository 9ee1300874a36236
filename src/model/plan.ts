import type { RouteName } from "./ids.ts";

/** An event as routes match it. */
export interface RoutedEvent {
  /** Event kind, e.g. `message.status`. */
  readonly event: string;
  readonly account: string;
  readonly source: string;
  /** The status in the event, whether or not tracking applied it. */
  readonly status: string | null;
  /** The error code in the event, as text. */
  readonly errorCode: string | null;
  /** The event's `data`, parsed. */
  readonly data: unknown;
  /** True when the service sent the event without its data. */
  readonly truncated: boolean;
  /** True while hydration reads the messages that a truncated event may be about. */
  readonly hydrating?: boolean;
}

/**
 * The result of routing an event. Two are not final:
 *
 * - `parked` becomes `routed` when the wamid is registered in time, `filtered` if its reference or metadata do not match,
 *   else `ignored`.
 * - `accepted` (Redis engine only) waits for a worker, which plans it.
 *
 * A quarantined body that is read as an event later is `released`; the event has its own disposition. The stores save the
 * index in this list, so new ones go to the end.
 */
export const dispositions = ["routed", "filtered", "ignored", "quarantined", "parked", "accepted", "released"] as const;
export type Disposition = (typeof dispositions)[number];

/** What one route does with an event; `reason` names the first criterion of `match` that failed. */
export type RouteVerdict =
  | { readonly route: RouteName; readonly verdict: "deliver" }
  | { readonly route: RouteName; readonly verdict: "park" }
  | { readonly route: RouteName; readonly verdict: "skip"; readonly reason: string };

export interface DeliveryPlan {
  readonly disposition: Disposition;
  /** One per route, in the order of the settings. */
  readonly verdicts: readonly RouteVerdict[];
  /** Why the event could not be tracked or planned. It goes to no route, and can be replayed. */
  readonly fault?: string;
}
