import type { DeliveryState } from "../event/delivery.ts";
import type { Disposition } from "../event/plan.ts";
import type { DueDelivery } from "./planned.ts";

/** Which settled deliveries to send once more; all that is given must hold. */
export interface ReplayFilter {
  readonly route?: string | undefined;
  readonly states: readonly Extract<DeliveryState, "delivered" | "dead">[];
  readonly errorCode?: string | undefined;
  /** Unix ms of acceptance, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** Events that went nowhere, judged anew by the routes of today. All that is given must hold. */
export interface PlanAgainFilter {
  readonly disposition: Extract<Disposition, "filtered" | "ignored">;
  /** Only this route may get them. */
  readonly route?: string | undefined;
  readonly errorCode?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** How far a walk has come. `since` is when it began (unix ms): what is settled later is not part of it. `route` is a number of the store's own. */
export interface ReplayCursor {
  readonly since: number;
  readonly event: number;
  readonly route: number;
}

export interface ReplayFound {
  readonly found: readonly { readonly event: number; readonly route: string }[];
  /** Null when the walk is over. */
  readonly cursor: ReplayCursor | null;
}

export interface Replayed {
  readonly replayed: number;
  readonly due: readonly DueDelivery[];
}

/** One delivery, retried whatever its state. */
export interface Retried {
  readonly state: DeliveryState;
  readonly due: DueDelivery | null;
}
