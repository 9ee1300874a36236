import type { DeliveryState } from "../event/delivery.ts";
import type { DeliveryId } from "../event/ids.ts";

export interface DeliveryFilter {
  readonly route?: string | undefined;
  readonly state?: DeliveryState | undefined;
  /** Seq of one event. */
  readonly event?: number | undefined;
  /** Only what stands behind this place in the list: see `placeOf`. */
  readonly before?: DeliveryPlace | undefined;
  /** Only deliveries of events with a greater seq. */
  readonly after?: number | undefined;
  readonly limit: number;
}

/** A place in the list of deliveries: an event's seq, and which of its routes, by a number of the store's own (0: before them all). */
export interface DeliveryPlace {
  readonly event: number;
  readonly route: number;
}

/** A delivery as the API and the CLI show it. Times are unix ms. */
export interface DeliveryView {
  readonly id: DeliveryId;
  readonly event: number;
  readonly eventId: string;
  readonly route: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly replays: number;
  readonly nextAt: number | null;
  readonly settledAt: number | null;
  readonly reason: string | null;
}

export interface AttemptView {
  readonly number: number;
  readonly at: number;
  readonly tookMs: number;
  /** HTTP status of the answer; null when none came. */
  readonly status: number | null;
  readonly error: string | null;
  readonly response: Buffer | null;
}

/** What a held delivery waits for. */
export interface Held {
  /** Seq of the event whose delivery goes out first of those of the same message on the route. */
  readonly behind: number;
  /** How many are held before it, besides. */
  readonly ahead: number;
}

/** The open and the dead deliveries of a route. */
export interface RouteBacklog {
  route: string;
  waiting: number;
  held: number;
  dead: number;
  /** Unix ms at which the oldest waiting delivery became or becomes due. */
  oldestDueAt: number | null;
  /** Why its destination is stopped; null when it is not. */
  stopped: string | null;
}
