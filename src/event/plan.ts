import type { RouteName } from "./ids.ts";

/**
 * The one final word on an event. `parked` alone is not final: when the wamid is registered in time it
 * becomes `forwarded`, or `filtered` if the reference or metadata then do not match; else `ignored`.
 */
export const dispositions = ["forwarded", "filtered", "ignored", "quarantined", "parked"] as const;
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
}
