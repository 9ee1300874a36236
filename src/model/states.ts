import type { RouteName } from "./ids.ts";

/**
 * The result of routing an event. `parked` is not final: it becomes `routed` when the wamid is
 * registered in time, `filtered` if its reference or metadata do not match, else `ignored`.
 *
 * An item for a business number that no account has is `unassigned`, until the number gets one.
 * A quarantined or unassigned body that is read as an event later is `released`; the event has its
 * own disposition. The stores save the index in this list, so new ones go to the end.
 */
export const dispositions = [
  "routed",
  "filtered",
  "ignored",
  "quarantined",
  "parked",
  "released",
  "unassigned",
] as const;
export type Disposition = (typeof dispositions)[number];

/**
 * The states of a delivery.
 *
 * | state | meaning | moves to |
 * |---|---|---|
 * | `waiting` | due at `nextAt` | `delivered`, `dead`, `waiting` (after a failed attempt) |
 * | `held` | waits for an earlier delivery of the same message on the same route | `waiting` |
 * | `delivered` | the destination accepted it | `waiting` (replay) |
 * | `dead` | a dead letter: out of attempts, or rejected permanently | `waiting` (retry, replay) |
 */
export const deliveryStates = ["waiting", "held", "delivered", "dead"] as const;
export type DeliveryState = (typeof deliveryStates)[number];

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

export type KeptVerdict = readonly [
  route: string,
  verdict: RouteVerdict["verdict"],
  reason?: string,
];

export function keptVerdicts({ verdicts }: Pick<DeliveryPlan, "verdicts">): KeptVerdict[] {
  return verdicts.map((v) =>
    v.verdict === "skip" ? [v.route, v.verdict, v.reason] : [v.route, v.verdict],
  );
}

export function verdictOf([route, verdict, reason]: KeptVerdict): RouteVerdict {
  return verdict === "skip" ? { route, verdict, reason: reason ?? "" } : { route, verdict };
}
