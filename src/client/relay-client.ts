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
import { type AccountPlan, type AccountReconciled, planReconcile, type ReconcileFilter, reconcile } from "./reconcile.ts";
import { RelayClientError } from "./relay-client-error.ts";
import {
  type MessageOptions,
  type MessageOrder,
  type RunOrder,
  type SendOptions,
  type SentMessage,
  type StartedRun,
  sendMessage,
  startRun,
} from "./send.ts";
import { trackAll } from "./track-all.ts";
import type { MessageFilter, RelayMessage, RelayRun, RunFilter, SecretUse } from "./tracked-answers.ts";

export type * from "./answers.ts";
export type { RelayClientOptions } from "./connection.ts";
export type { AccountPlan, AccountReconciled, ReconcileFilter, ReconcileStop } from "./reconcile.ts";
export { RelayClientError, type RelayClientErrorCode } from "./relay-client-error.ts";
export type { MessageOptions, MessageOrder, RunOrder, SendOptions, SentMessage, StartedRun } from "./send.ts";
export type * from "./tracked-answers.ts";

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

  /**
   * Sends one message through the service, once per `idempotencyKey`, and registers it. May take as long as the relay's
   * `send.maxWait` and one call of the service. `outcome_unknown` when nobody knows whether it was sent. Scope `send`.
   */
  send(message: MessageOrder, options: MessageOptions = {}): Promise<SentMessage> {
    return sendMessage(this.#connection, message, options);
  }

  /** Starts a run of an automation, once per `reference`, for ever. Scope `send`. */
  startRun(automation: string, run: RunOrder, options: SendOptions = {}): Promise<StartedRun> {
    return startRun(this.#connection, automation, run, options);
  }

  /** By wamid, the service's id or reference; `account` tells apart those of several accounts. Scope `read`, as all that follows up to `stats`. */
  message(name: string, { account }: { account?: string | undefined } = {}): Promise<RelayMessage> {
    return this.#connection.json("GET", `/v1/messages/${encodeURIComponent(name)}${accountQuery(account)}`);
  }

  /** Registered ones, newest first, asked for page by page. */
  messages({ limit, ...filter }: MessageFilter = {}): AsyncGenerator<RelayMessage, void> {
    return readPages(this.#connection, "/v1/messages", { ...filter }, limit);
  }

  /** Newest first, asked for page by page. */
  runs({ limit, ...filter }: RunFilter = {}): AsyncGenerator<RelayRun, void> {
    return readPages(this.#connection, "/v1/runs", { ...filter }, limit);
  }

  /** Newest first, asked for page by page. */
  events({ limit, ...filter }: EventFilter = {}): AsyncGenerator<RelayEvent, void> {
    return readPages(this.#connection, "/v1/events", { ...filter }, limit);
  }

  /** By event id or seq. `account` tells apart events of several accounts with the same id. */
  event(id: string | number, { account }: { account?: string | undefined } = {}): Promise<RelayEventDetail> {
    return this.#connection.json("GET", `/v1/events/${encodeURIComponent(id)}${accountQuery(account)}`);
  }

  /** Those of the newest events first, asked for page by page. */
  deliveries({ limit, ...filter }: DeliveryFilter = {}): AsyncGenerator<RelayDelivery, void> {
    return readPages(this.#connection, "/v1/deliveries", { ...filter }, limit);
  }

  /** Which secret proved how much, and when last. */
  async secrets(): Promise<SecretUse[]> {
    const { data } = await this.#connection.json<{ data: SecretUse[] }>("GET", "/v1/secrets");
    return data;
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

  /** Ends the stops of an account's used-up quotas; the names of those that there were. */
  async resumeAccount(account: string): Promise<string[]> {
    const { ended } = await this.#connection.json<{ ended: string[] }>("POST", `/v1/accounts/${encodeURIComponent(account)}/resume`);
    return ended;
  }

  /** What `reconcile` would ask; asks nothing. */
  planReconcile(filter: ReconcileFilter = {}): Promise<AccountPlan[]> {
    return planReconcile(this.#connection, filter);
  }

  /** Has the service asked about every message that is due now, however many calls that takes; what became of it, by account. */
  reconcile(filter: ReconcileFilter = {}): Promise<AccountReconciled[]> {
    return reconcile(this.#connection, filter);
  }
}

function accountQuery(account: string | undefined): string {
  return account === undefined ? "" : `?account=${encodeURIComponent(account)}`;
}
