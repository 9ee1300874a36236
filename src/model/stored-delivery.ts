import type { Attempt } from "./delivery.ts";
import type { HydrationBrief } from "./hydration.ts";
import type { EventId } from "./ids.ts";
import type { KeptHeaders, Origin } from "./received.ts";

/** A delivery with all that an attempt needs, as the store gives it. */
export interface StoredDelivery {
  readonly route: string;
  /** The event's seq. */
  readonly event: number;
  readonly account: string;
  readonly source: string;
  readonly eventId: EventId;
  /** Event kind. */
  readonly kind: string;
  readonly origin: Origin;
  /** Unix ms at which the event was accepted. */
  readonly receivedAt: number;
  readonly body: Buffer;
  readonly headers: KeptHeaders;
  /** Attempts made in all, and since it was planned or last replayed. */
  readonly attempts: number;
  readonly spent: number;
  readonly replays: number;
  /** The message or run it is about. */
  readonly subject: DeliverySubject | null;
  /** What is known of an event that came without its data; not given: it came with them. */
  readonly hydration?: HydrationBrief;
}

export interface DeliverySubject {
  readonly type: "message" | "run";
  /** wamid or run id. */
  readonly key: string;
  readonly tracked: boolean;
  /** The service's id of a message, when known. */
  readonly id: string | null;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  /** Status before the event; the event's own is in its data. */
  readonly previousStatus: string | null;
  readonly status: string | null;
  /** True when the event was a transition. */
  readonly moved: boolean;
}

/** How a delivery goes on after an attempt. */
export type Settled =
  | { readonly to: "delivered" }
  /** `spares`: the attempt is written down, and not counted among those it may have (`spent`). */
  | { readonly to: "waiting"; readonly nextAt: number; readonly spares?: boolean }
  | { readonly to: "dead"; readonly reason: string };

/** What an attempt made of a delivery. `attempt.number` is one more than the delivery's `attempts`. */
export interface Settlement {
  readonly route: string;
  readonly event: number;
  /** That event's own id, where it is known: a store that has lost events since gives their numbers to others. */
  readonly eventId?: EventId;
  readonly attempt: Attempt;
  readonly settled: Settled;
  /** Unix ms. */
  readonly at: number;
  /** When the destination refused everything from now on (410): why. */
  readonly stop?: string;
  /** When the destination asked not to be called until then, in unix ms (429): `breaker` names the settings it holds for. */
  readonly pause?: { readonly breaker: string; readonly until: number };
}
