import type { RouteName } from "./ids.ts";
import type { Disposition } from "./states.ts";

export interface RoutedEvent {
  readonly event: string;
  readonly account: string;
  readonly source: string;
  /** The status in the event, whether or not tracking applied it. */
  readonly status: string | null;
  readonly errorCode: string | null;
  readonly data: unknown;
  readonly truncated: boolean;
  readonly hydrating?: boolean;
  readonly parks?: boolean;
}

/** What one route does with an event; `reason` names the first criterion of `match` that failed. */
export type RouteVerdict =
  | { readonly route: RouteName; readonly verdict: "deliver" }
  | { readonly route: RouteName; readonly verdict: "park" }
  | { readonly route: RouteName; readonly verdict: "skip"; readonly reason: string };

export interface DeliveryPlan {
  readonly disposition: Disposition;
  readonly verdicts: readonly RouteVerdict[];
  /** Why the event could not be tracked or planned. It goes to no route, and can be replayed. */
  readonly fault?: string;
}

export type KeptVerdict = readonly [route: string, verdict: RouteVerdict["verdict"], reason?: string];

export function keptVerdicts({ verdicts }: Pick<DeliveryPlan, "verdicts">): KeptVerdict[] {
  return verdicts.map((v) => (v.verdict === "skip" ? [v.route, v.verdict, v.reason] : [v.route, v.verdict]));
}

export function verdictOf([route, verdict, reason]: KeptVerdict): RouteVerdict {
  return verdict === "skip" ? { route, verdict, reason: reason ?? "" } : { route, verdict };
}
