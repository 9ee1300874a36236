import type { KeptHeaders, Origin, ReceivedEvent } from "../event/received.ts";
import type { Soon } from "../event/soon.ts";
import type { AcceptOutcome } from "./planned.ts";
import type { ReplayCursor } from "./replay-filters.ts";

/** Which quarantined bodies are meant. All that is given must hold. */
export interface QuarantineFilter {
  readonly source?: string | undefined;
  /** Unix ms of receipt, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

/** A quarantined body as it was received. */
export interface QuarantinedEvent {
  readonly seq: number;
  readonly account: string;
  readonly source: string;
  readonly origin: Origin;
  /** Unix ms. */
  readonly receivedAt: number;
  readonly headers: KeptHeaders;
  readonly body: Buffer;
}

export interface QuarantinedFound {
  readonly found: readonly QuarantinedEvent[];
  /** Null when the walk is over. `route` of it is the time of receipt. */
  readonly cursor: ReplayCursor | null;
}

/**
 * The way out of quarantine. A released body becomes an event of its own, accepted last of all, so that it takes the way
 * that every event takes; the quarantined row stays, with the disposition `released` and the seq of that event.
 */
export interface Quarantine {
  /** The next bodies that the filter means, in the order received, `limit` of them or some more; writes nothing. */
  findQuarantined(filter: QuarantineFilter, cursor: ReplayCursor, limit: number): Soon<QuarantinedFound>;
  /** Null when there is none with this seq, or it is not in quarantine. */
  quarantined(seq: number): Soon<QuarantinedEvent | null>;
  /**
   * Accepts `event`, which was read from the body under `event.releaseOf`, and marks that body as released. Its event id
   * makes it one event, however often this is called. Null: the body is in quarantine no more.
   */
  release(event: ReleasedEvent): Promise<AcceptOutcome | null>;
}

export interface ReleasedEvent extends ReceivedEvent {
  readonly releaseOf: number;
}
