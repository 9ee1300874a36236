import type {
  DeliveryFilter,
  EventFilter,
  MessageRegistration,
  RelayDelivery,
  RelayEvent,
  RelayEventDetail,
  RelayStats,
  ReplayCount,
  ReplayFilter,
  Retried,
  TrackedLine,
  TrackSums,
} from "./answers.ts";
import { type Connection, connect, type RelayClientOptions } from "./connection.ts";
import { readPages } from "./pages.ts";
import { RelayClientError } from "./relay-client-error.ts";
import { trackAll } from "./track-all.ts";

export type * from "./answers.ts";
export type { RelayClientOptions } from "./connection.ts";
export { RelayClientError, type RelayClientErrorCode } from "./relay-client-error.ts";

/**
 * A relay's control API (docs/endpoints.md), over the global `fetch`: Node from 20 on, and browsers. Every method throws
 * {@link RelayClientError} when the relay refuses or cannot be asked. Nothing is tried again by itself.
 */
export class RelayClient {
  readonly #connection: Connection;

  /** Throws TypeError when URL or token are none. */
  constructor(options: RelayClientOptions) {
    this.#connection = connect(options);
  }

  /** Registers a message as yours. Safe to repeat; `conflict` when it contradicts what is stored. Scope `track`. */
  async track(message: MessageRegistration): Promise<{ result: "created" | "known" }> {
    const { created } = await this.#connection.json<{ created: number }>("POST", "/v1/messages/track", message);
    return { result: created === 1 ? "created" : "known" };
  }

  /**
   * Registers any number of messages: what became of each, in order, and the sums as the generator's return value. A message
   * that is refused does not hold up the others. Nothing is registered unless the report is read. Scope `track`.
   */
  trackAll(messages: Iterable<MessageRegistration> | AsyncIterable<MessageRegistration>): AsyncGenerator<TrackedLine, TrackSums> {
    return trackAll(this.#connection, messages);
  }

  /** Newest first, asked for page by page. Scope `read`, as all that follows up to `stats`. */
  events({ limit, ...filter }: EventFilter = {}): AsyncGenerator<RelayEvent, void> {
    return readPages(this.#connection, "/v1/events", { ...filter }, limit);
  }

  /** By event id or seq. `account` tells apart events of several accounts with the same id. */
  event(id: string | number, { account }: { account?: string | undefined } = {}): Promise<RelayEventDetail> {
    const query = account === undefined ? "" : `?account=${encodeURIComponent(account)}`;
    return this.#connection.json("GET", `/v1/events/${encodeURIComponent(id)}${query}`);
  }

  /** Those of the newest events first, asked for page by page. */
  deliveries({ limit, ...filter }: DeliveryFilter = {}): AsyncGenerator<RelayDelivery, void> {
    return readPages(this.#connection, "/v1/deliveries", { ...filter }, limit);
  }

  stats(): Promise<RelayStats> {
    return this.#connection.json("GET", "/v1/stats");
  }

  /** Sends one delivery again. Scope `replay`, as all that follows. */
  retry(deliveryId: string): Promise<Retried> {
    return this.#connection.json("POST", `/v1/deliveries/${encodeURIComponent(deliveryId)}/retry`);
  }

  /** What `replay` with the same filter would send again. */
  countReplay(filter: ReplayFilter = {}): Promise<ReplayCount> {
    return this.#connection.json("POST", "/v1/replay", { ...filter, dryRun: true });
  }

  /** Sends again everything that matches, dead letters when nothing else is said, however many calls that takes. */
  async replay(filter: ReplayFilter = {}): Promise<{ replayed: number }> {
    let replayed = 0;
    let cursor: string | null = null;
    for (;;) {
      const step: { replayed: number; next: string | null } = await this.#connection.json("POST", "/v1/replay", { ...filter, cursor });
      replayed += step.replayed;
      if (step.next === null) return { replayed };
      // A relay that is stopping answers at once and does nothing.
      if (step.next === cursor)
        throw new RelayClientError("the relay is stopping", { status: 200, code: "shutting_down", details: { replayed } });
      cursor = step.next;
    }
  }

  /** Starts a destination again that had stopped with 410; false when it was not stopped. */
  async resume(route: string): Promise<boolean> {
    const { resumed } = await this.#connection.json<{ resumed: boolean }>("POST", `/v1/routes/${encodeURIComponent(route)}/resume`);
    return resumed;
  }
}
