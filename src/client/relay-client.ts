import type {
  AccountPlan,
  AccountReconciled,
  RelayDelivery,
  RelayEvent,
  RelayEventDetail,
  RelayMessage,
  RelayRun,
  RelayStats,
  ReplayCount,
  Retried,
  SecretUse,
  StartedRun,
  TrackedLine,
  TrackSums,
} from "../model/answers.ts";
import { type Connection, connect, RelayClientError, type RelayClientOptions, readPages } from "./connection.ts";
import { type SentMessage, sendMessage, startRun, trackAll } from "./messages.ts";
import type {
  DeliveryFilter,
  EventFilter,
  MessageFilter,
  MessageOptions,
  MessageOrder,
  MessageRegistration,
  ReconcileFilter,
  ReplayFilter,
  RunFilter,
  RunOrder,
  SendOptions,
} from "./requests.ts";

export type {
  AccountPlan,
  AccountReconciled,
  Attempt,
  ReconcileStop,
  RelayDelivery,
  RelayEvent,
  RelayEventDetail,
  RelayMessage,
  RelayRun,
  RelayStats,
  ReplayCount,
  Retried,
  SecretUse,
  StartedRun,
  TrackedLine,
  TrackSums,
} from "../model/answers.ts";
export { RelayClientError, type RelayClientErrorCode, type RelayClientOptions } from "./connection.ts";
export type { SentMessage } from "./messages.ts";
export type * from "./requests.ts";

/**
 * A relay's control API (docs/endpoints.md), over the global `fetch`: Node 20 or later, and browsers. Every method throws
 * {@link RelayClientError} when the relay refuses or cannot be reached. The client never retries.
 */
export class RelayClient {
  readonly #connection: Connection;

  /** Throws TypeError for an invalid URL or token. */
  constructor(options: RelayClientOptions) {
    this.#connection = connect(options);
  }

  /** Registers a message as yours. Safe to repeat; `conflict` when it contradicts what is stored. Scope `track`. */
  async track(message: MessageRegistration): Promise<{ result: "created" | "known" }> {
    const { created } = await this.#connection.json<{ created: number }>("POST", "/v1/messages/track", message);
    return { result: created === 1 ? "created" : "known" };
  }

  /**
   * Registers any number of messages: yields the result of each, in order, and returns the sums. A refused message does not
   * stop the others. Nothing is registered unless the report is read. Scope `track`.
   */
  trackAll(messages: Iterable<MessageRegistration> | AsyncIterable<MessageRegistration>): AsyncGenerator<TrackedLine, TrackSums> {
    return trackAll(this.#connection, messages);
  }

  /**
   * Sends one message through the service, once per `idempotencyKey`, and registers it. May take as long as the relay's
   * `send.maxWait` and one call of the service. `outcome_unknown` when it may or may not have been sent. Scope `send`.
   */
  send(message: MessageOrder, options: MessageOptions = {}): Promise<SentMessage> {
    return sendMessage(this.#connection, message, options);
  }

  /** Starts a run of an automation, once per `reference`, for ever. Scope `send`. */
  startRun(automation: string, run: RunOrder, options: SendOptions = {}): Promise<StartedRun> {
    return startRun(this.#connection, automation, run, options);
  }

  /** By wamid, the service's id or reference; `account` selects among several accounts. Scope `read`, like all methods up to `stats`. */
  message(name: string, { account }: { account?: string | undefined } = {}): Promise<RelayMessage> {
    return this.#connection.json("GET", `/v1/messages/${encodeURIComponent(name)}${accountQuery(account)}`);
  }

  /** Registered messages, newest first, read page by page. */
  messages({ limit, ...filter }: MessageFilter = {}): AsyncGenerator<RelayMessage, void> {
    return readPages(this.#connection, "/v1/messages", { ...filter }, limit);
  }

  /** Newest first, read page by page. */
  runs({ limit, ...filter }: RunFilter = {}): AsyncGenerator<RelayRun, void> {
    return readPages(this.#connection, "/v1/runs", { ...filter }, limit);
  }

  /** Newest first, read page by page. */
  events({ limit, ...filter }: EventFilter = {}): AsyncGenerator<RelayEvent, void> {
    return readPages(this.#connection, "/v1/events", { ...filter }, limit);
  }

  /** By event id or seq. `account` selects among events of several accounts with the same id. */
  event(id: string | number, { account }: { account?: string | undefined } = {}): Promise<RelayEventDetail> {
    return this.#connection.json("GET", `/v1/events/${encodeURIComponent(id)}${accountQuery(account)}`);
  }

  /** Newest events first, read page by page. */
  deliveries({ limit, ...filter }: DeliveryFilter = {}): AsyncGenerator<RelayDelivery, void> {
    return readPages(this.#connection, "/v1/deliveries", { ...filter }, limit);
  }

  /** How often each secret verified webhooks, and when last. */
  async secrets(): Promise<SecretUse[]> {
    const { data } = await this.#connection.json<{ data: SecretUse[] }>("GET", "/v1/secrets");
    return data;
  }

  stats(): Promise<RelayStats> {
    return this.#connection.json("GET", "/v1/stats");
  }

  /** Sends one delivery again. Scope `replay`, like all methods below. */
  retry(deliveryId: string): Promise<Retried> {
    return this.#connection.json("POST", `/v1/deliveries/${encodeURIComponent(deliveryId)}/retry`);
  }

  /** What `replay` with the same filter would send again. */
  countReplay(filter: ReplayFilter = {}): Promise<ReplayCount> {
    return this.#connection.json("POST", "/v1/replay", { ...filter, dryRun: true });
  }

  /** Sends everything again that matches, by default dead letters, in as many calls as it takes. */
  async replay(filter: ReplayFilter = {}): Promise<{ replayed: number }> {
    let replayed = 0;
    let cursor: string | null = null;
    for (;;) {
      const step: { replayed: number; next: string | null } = await this.#connection.json("POST", "/v1/replay", { ...filter, cursor });
      replayed += step.replayed;
      if (step.next === null) return { replayed };
      // A stopping relay answers at once and does nothing.
      if (step.next === cursor)
        throw new RelayClientError("the relay is stopping", { status: 200, code: "shutting_down", details: { replayed } });
      cursor = step.next;
    }
  }

  /** Resumes a destination that was stopped or paused; false when it was neither. */
  async resume(route: string): Promise<boolean> {
    const { resumed } = await this.#connection.json<{ resumed: boolean }>("POST", `/v1/routes/${encodeURIComponent(route)}/resume`);
    return resumed;
  }

  /** Ends the stops of an account's used-up quotas; returns their names. */
  async resumeAccount(account: string): Promise<string[]> {
    const { ended } = await this.#connection.json<{ ended: string[] }>("POST", `/v1/accounts/${encodeURIComponent(account)}/resume`);
    return ended;
  }

  /** What `reconcile` would poll; polls nothing. */
  async planReconcile(filter: ReconcileFilter = {}): Promise<AccountPlan[]> {
    const { accounts } = await this.#connection.json<{ accounts: AccountPlan[] }>("POST", "/v1/reconcile", { ...filter, dryRun: true });
    return accounts;
  }

  /** Polls every message that is due now, in as many calls as it takes; returns the results by account. */
  async reconcile(filter: ReconcileFilter = {}): Promise<AccountReconciled[]> {
    const sums = new Map<string, AccountReconciled>();
    let dueBy: string | null = null;
    for (;;) {
      const step: { dueBy: string; more: boolean; accounts: AccountReconciled[] } = await this.#connection.json("POST", "/v1/reconcile", {
        ...filter,
        dueBy,
      });
      for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
      if (!step.more) return [...sums.values()];
      dueBy = step.dueBy;
    }
  }
}

function accountQuery(account: string | undefined): string {
  return account === undefined ? "" : `?account=${encodeURIComponent(account)}`;
}

/** Adds up the counts; the other fields are those of the later step. */
function addUp(before: AccountReconciled | undefined, step: AccountReconciled): AccountReconciled {
  if (before === undefined) return step;
  const counts = ["asked", "changed", "unchanged", "missing", "failed"] as const;
  return { ...step, ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])) };
}
