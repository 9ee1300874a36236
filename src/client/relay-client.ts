import type {
  AccountReconciled,
  RelayDelivery,
  RelayEvent,
  RelayMessage,
  RelayRun,
  ReplayCount,
  StartedRun,
  TrackedLine,
  TrackSums,
} from "../model/answers.ts";
import type { RelayAudit } from "../model/audit.ts";
import { systemClock } from "../model/system-clock.ts";
import { type AnswerOf, Calls, call, type RequestOf } from "./calls.ts";
import { type Connection, connect, queryOf, type RelayClientOptions } from "./connection.ts";
import { followLive, type LiveMessage } from "./live.ts";
import {
  type MessageOptions,
  type MessageOrder,
  type MessageRegistration,
  type Messages,
  type RunOrder,
  type SendOptions,
  type SentMessage,
  sendMessage,
  startRun,
  trackAll,
} from "./messages.ts";
import {
  type AuditOptions,
  type AuditRange,
  audit,
  type FilterOf,
  type ReconcileFilter,
  type ReplayFilter,
  type ReplayProgress,
  type ReplayStepOptions,
  readPages,
  reconcile,
  replay,
  replaySteps,
  type StepOptions,
} from "./steps.ts";

export type {
  AccountPlan,
  AccountReconciled,
  Attempt,
  DeliveryGroup,
  ReconcileStop,
  RelayAccount,
  RelayDelivery,
  RelayEvent,
  RelayEventDetail,
  RelayExplained,
  RelayInstance,
  RelayListener,
  RelayMessage,
  RelayRun,
  RelaySession,
  RelaySettings,
  RelayStats,
  RelayStory,
  Reload,
  ReplayCount,
  Retried,
  SecretUse,
  SessionCode,
  StartedRun,
  TrackEnd,
  TrackedLine,
  TrackSums,
} from "../model/answers.ts";
export type { AuditProgress, RelayAudit } from "../model/audit.ts";
export type { RelayQuality, RelaySeries } from "../model/history.ts";
export type { RelayOverview } from "../model/overview.ts";
export type { SearchHit } from "../model/search.ts";
export type { DeliveryState, Disposition } from "../model/states.ts";
export type { AnswerOf, RequestOf } from "./calls.ts";
export { RelayClientError, type RelayClientErrorCode, type RelayClientOptions } from "./connection.ts";
export type { LiveMessage } from "./live.ts";
export type * from "./messages.ts";
export type * from "./steps.ts";

export type ReconcilePlan = Exclude<AnswerOf<"reconcile">, { more: boolean }>;

/**
 * A relay's control API (docs/reference/endpoints.md), over the global `fetch`: Node 20 or later, and browsers. Has a method for
 * each endpoint, such as `getEvent({ id })`, and those below for what takes several requests. Every method throws
 * {@link RelayClientError} when the relay refuses or cannot be reached. Only `live`, and `send` and `startRun` while another
 * request with the same key is in flight, retry.
 */
export class RelayClient extends Calls {
  readonly #connection: Connection;

  /** Throws TypeError for an invalid URL or token. */
  constructor(options: RelayClientOptions) {
    const connection = connect(options);
    super(connection);
    this.#connection = connection;
  }

  /** Registers a message as yours. Safe to repeat; `conflict` when it contradicts what is stored. Scope `track`. */
  async track(message: MessageRegistration): Promise<{ result: "created" | "known" }> {
    const { created } = await this.#connection.json<{ created: number }>("POST", "/v1/messages/track", message);
    return { result: created === 1 ? "created" : "known" };
  }

  /**
   * Registers any number of messages: yields the result of each, in order, and returns the sums. A refused message does not
   * stop the others. Nothing is registered unless the report is read. Text is JSON without line breaks. Scope `track`.
   */
  trackAll(messages: Messages): AsyncGenerator<TrackedLine, TrackSums> {
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

  /** Registered messages, newest first, read page by page. */
  messages(filter: FilterOf<"listMessages"> = {}): AsyncGenerator<RelayMessage, void> {
    return readPages(this.#connection, "listMessages", filter, filter.limit);
  }

  /** Newest first, read page by page. */
  runs(filter: FilterOf<"listRuns"> = {}): AsyncGenerator<RelayRun, void> {
    return readPages(this.#connection, "listRuns", filter, filter.limit);
  }

  /** Newest first, read page by page. */
  events(filter: FilterOf<"listEvents"> = {}): AsyncGenerator<RelayEvent, void> {
    return readPages(this.#connection, "listEvents", filter, filter.limit);
  }

  /** Newest events first, read page by page. */
  deliveries(filter: FilterOf<"listDeliveries"> = {}): AsyncGenerator<RelayDelivery, void> {
    return readPages(this.#connection, "listDeliveries", filter, filter.limit);
  }

  /** Whether everything received is accounted for. Takes about a second per million events. */
  audit(range: AuditRange = {}, options: AuditOptions = {}): Promise<RelayAudit> {
    return audit(this.#connection, range, options);
  }

  /**
   * The overview whenever it changes, and with `tail` the events as they are stored. Reconnects by itself and continues after
   * the last event. Ends when `signal` is aborted; throws when the relay refuses for good, such as 401 after the session ended.
   */
  live(filter: RequestOf<"live"> = {}, { signal }: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<LiveMessage, void> {
    return followLive({
      connection: this.#connection,
      path: `/v1/live${queryOf({ ...filter })}`,
      signal: signal ?? new AbortController().signal,
      clock: systemClock,
      random: Math.random,
    });
  }

  /** What `replay` with the same filter would send again. */
  async countReplay(filter: ReplayFilter = {}): Promise<ReplayCount> {
    return (await call(this.#connection, "replay", { ...filter, dryRun: true })) as ReplayCount;
  }

  /**
   * Sends everything again that matches, by default dead letters, in as many requests as it takes. `complete` is false when
   * `signal` ended it.
   */
  replay(filter: ReplayFilter = {}, options: StepOptions = {}): Promise<{ replayed: number; complete: boolean }> {
    return replay(this.#connection, filter, options);
  }

  /** `replay` request by request: after each, how many went out so far and the cursor of the next. */
  replaySteps(filter: ReplayFilter = {}, options: ReplayStepOptions = {}): AsyncGenerator<ReplayProgress, void> {
    return replaySteps(this.#connection, filter, options);
  }

  /** What `reconcile` would poll; polls nothing. */
  async planReconcile(filter: ReconcileFilter = {}): Promise<ReconcilePlan> {
    return (await call(this.#connection, "reconcile", { ...filter, dryRun: true })) as ReconcilePlan;
  }

  /** Polls every message that is due, in as many calls as it takes; returns the results by account. */
  reconcile(filter: ReconcileFilter = {}, options: StepOptions = {}): Promise<AccountReconciled[]> {
    return reconcile(this.#connection, filter, options);
  }
}

/** For a page that the relay serves, leave out `token`: the session cookie of the browser authorizes the requests. */
export function createRelayClient(options: RelayClientOptions): RelayClient {
  return new RelayClient(options);
}
