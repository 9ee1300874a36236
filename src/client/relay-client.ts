import type {
  AccountPlan,
  AccountReconciled,
  DeliveryGroup,
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
  Reload,
  ReplayCount,
  Retried,
  SecretUse,
  SessionCode,
  StartedRun,
  TrackedLine,
  TrackSums,
} from "../model/answers.ts";
import type { RelayAudit } from "../model/audit.ts";
import type { RelayQuality, RelaySeries } from "../model/history.ts";
import type { RelayOverview } from "../model/overview.ts";
import type { SearchHit } from "../model/search.ts";
import { systemClock } from "../model/system-clock.ts";
import { type Connection, connect, type Page, queryOf, type RelayClientOptions, readPages } from "./connection.ts";
import { followLive, type LiveMessage } from "./live.ts";
import { type SentMessage, sendMessage, startRun, trackAll } from "./messages.ts";
import type {
  AuditOptions,
  AuditRange,
  DeliveryFilter,
  DeliveryGroupFilter,
  EventFilter,
  ExplainFilter,
  LiveFilter,
  MessageFilter,
  MessageOptions,
  MessageOrder,
  MessageRegistration,
  PageOf,
  QualityFilter,
  ReconcileFilter,
  ReplayFilter,
  Reveal,
  RunFilter,
  RunOrder,
  SendOptions,
  SeriesFilter,
  StepOptions,
} from "./requests.ts";
import { audit, reconcile, replay } from "./steps.ts";

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
  TrackedLine,
  TrackSums,
} from "../model/answers.ts";
export type { AuditProgress, RelayAudit } from "../model/audit.ts";
export type { RelayQuality, RelaySeries } from "../model/history.ts";
export type { RelayOverview } from "../model/overview.ts";
export type { SearchHit } from "../model/search.ts";
export type { DeliveryState, Disposition } from "../model/states.ts";
export { type Page, RelayClientError, type RelayClientErrorCode, type RelayClientOptions } from "./connection.ts";
export type { LiveMessage } from "./live.ts";
export type { SentMessage } from "./messages.ts";
export type * from "./requests.ts";

/**
 * A relay's control API (docs/reference/endpoints.md), over the global `fetch`: Node 20 or later, and browsers. Every method throws
 * {@link RelayClientError} when the relay refuses or cannot be reached. Only `live` retries.
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

  /** By wamid, the service's id or reference; `account` selects among several accounts. Scope `read`, like all methods up to `live`. */
  message(name: string, options: Reveal & { account?: string | undefined } = {}): Promise<RelayMessage> {
    return this.#read(`/v1/messages/${encodeURIComponent(name)}`, options);
  }

  /** One page of `messages`. */
  messagePage(filter: MessageFilter & PageOf<number> = {}): Promise<Page<RelayMessage, number>> {
    return this.#read("/v1/messages", filter);
  }

  /** Registered messages, newest first, read page by page. */
  messages({ limit, ...filter }: MessageFilter = {}): AsyncGenerator<RelayMessage, void> {
    return readPages(this.#connection, "/v1/messages", { ...filter }, limit);
  }

  /** One page of `runs`. */
  runPage(filter: RunFilter & PageOf<number> = {}): Promise<Page<RelayRun, number>> {
    return this.#read("/v1/runs", filter);
  }

  /** Newest first, read page by page. */
  runs({ limit, ...filter }: RunFilter = {}): AsyncGenerator<RelayRun, void> {
    return readPages(this.#connection, "/v1/runs", { ...filter }, limit);
  }

  /** One page of `events`. `unseen`: number of oldest unplanned events that a search by wamid did not cover. */
  eventPage(filter: EventFilter & PageOf<number> = {}): Promise<Page<RelayEvent, number> & { readonly unseen: number }> {
    return this.#read("/v1/events", filter);
  }

  /** Newest first, read page by page. */
  events({ limit, ...filter }: EventFilter = {}): AsyncGenerator<RelayEvent, void> {
    return readPages(this.#connection, "/v1/events", { ...filter }, limit);
  }

  /** By event id or seq. `account` selects among events of several accounts with the same id. */
  event(id: string | number, options: Reveal & { account?: string | undefined } = {}): Promise<RelayEventDetail> {
    return this.#read(`/v1/events/${encodeURIComponent(id)}`, options);
  }

  /** One page of `deliveries`. */
  deliveryPage(filter: DeliveryFilter & PageOf<string> = {}): Promise<Page<RelayDelivery, string>> {
    return this.#read("/v1/deliveries", filter);
  }

  /** Newest events first, read page by page. */
  deliveries({ limit, ...filter }: DeliveryFilter = {}): AsyncGenerator<RelayDelivery, void> {
    return readPages(this.#connection, "/v1/deliveries", { ...filter }, limit);
  }

  /** Number of deliveries by destination, state and cause of the last failure. */
  async deliveryGroups(filter: DeliveryGroupFilter = {}): Promise<DeliveryGroup[]> {
    const { data } = await this.#read<{ data: DeliveryGroup[] }>("/v1/deliveries/groups", filter);
    return data;
  }

  /** Messages, runs, events and deliveries that `q` may mean: at most 20, best first. `more`: others match as well. */
  search(q: string): Promise<{ data: SearchHit[]; more: boolean }> {
    return this.#read("/v1/search", { q });
  }

  /** The whole story of an event, message or run, by any of its names; several stories when they share the name. */
  explain(name: string, filter: ExplainFilter = {}): Promise<RelayExplained> {
    return this.#read(`/v1/explain/${encodeURIComponent(name)}`, filter);
  }

  /** Whether everything received is accounted for. Takes about a second per million events. */
  audit(range: AuditRange = {}, options: AuditOptions = {}): Promise<RelayAudit> {
    return audit(this.#connection, range, options);
  }

  /** What needs action, the figures and the destinations, now. */
  overview(): Promise<RelayOverview> {
    return this.#read("/v1/overview");
  }

  /** Counts, percentiles or gauges over time. */
  series(filter: SeriesFilter): Promise<RelaySeries> {
    return this.#read("/v1/series", filter);
  }

  /** How many messages arrived, what failed and why, and how long they took. */
  quality(filter: QualityFilter = {}): Promise<RelayQuality> {
    return this.#read("/v1/quality", filter);
  }

  /** How often each secret verified webhooks, and when last. */
  async secrets(): Promise<SecretUse[]> {
    const { data } = await this.#read<{ data: SecretUse[] }>("/v1/secrets");
    return data;
  }

  stats(): Promise<RelayStats> {
    return this.#read("/v1/stats");
  }

  /** The process that answers: its version and its store. */
  instance(): Promise<RelayInstance> {
    return this.#read("/v1/instance");
  }

  /** The settings in effect, with secrets masked. */
  settings(): Promise<RelaySettings> {
    return this.#read("/v1/settings");
  }

  /** The accounts of the settings, each with its stops, the month's calls and the last reconciliation pass. */
  async accounts(): Promise<RelayAccount[]> {
    const { data } = await this.#read<{ data: RelayAccount[] }>("/v1/accounts");
    return data;
  }

  /** Connected listeners, and the cursors of others. */
  async listeners(): Promise<RelayListener[]> {
    const { data } = await this.#read<{ data: RelayListener[] }>("/v1/listeners");
    return data;
  }

  /** What the last reload of the settings did; before the first one, the start. */
  lastReload(): Promise<Reload> {
    return this.#read("/v1/reload");
  }

  /**
   * The overview whenever it changes, and with `tail` the events as they are stored. Reconnects by itself and continues after
   * the last event. Ends when `signal` is aborted; throws when the relay refuses for good, such as 401 after the session ended.
   */
  live(filter: LiveFilter = {}, { signal }: { signal?: AbortSignal | undefined } = {}): AsyncGenerator<LiveMessage, void> {
    return followLive({
      connection: this.#connection,
      path: `/v1/live${queryOf({ ...filter })}`,
      signal: signal ?? new AbortController().signal,
      clock: systemClock,
      random: Math.random,
    });
  }

  /** The session of this browser's cookie; `unauthorized` when there is none. */
  session(): Promise<RelaySession> {
    return this.#read("/v1/session");
  }

  /** Starts a session: the relay sets its cookie. */
  signIn(by: { token: string } | { code: string }): Promise<RelaySession> {
    return this.#connection.json("POST", "/v1/session", by);
  }

  async signOut(): Promise<void> {
    await this.#connection.json("POST", "/v1/session/end");
  }

  /** A code that signs in once, within a minute, with the rights of this client's token. */
  createSessionCode(): Promise<SessionCode> {
    return this.#connection.json("POST", "/v1/session/code");
  }

  /** Sends one delivery again. Scope `replay`, like all methods below. */
  retry(deliveryId: string): Promise<Retried> {
    return this.#connection.json("POST", `/v1/deliveries/${encodeURIComponent(deliveryId)}/retry`);
  }

  /** What `replay` with the same filter would send again. */
  countReplay(filter: ReplayFilter = {}): Promise<ReplayCount> {
    return this.#connection.json("POST", "/v1/replay", { ...filter, dryRun: true });
  }

  /**
   * Sends everything again that matches, by default dead letters, in as many requests as it takes. `complete` is false when
   * `signal` ended it.
   */
  replay(filter: ReplayFilter = {}, options: StepOptions = {}): Promise<{ replayed: number; complete: boolean }> {
    return replay(this.#connection, filter, options);
  }

  /** Tries a destination now that was stopped or paused, or whose breaker was open; false when it was none of these. */
  async resume(route: string): Promise<boolean> {
    const { resumed } = await this.#connection.json<{ resumed: boolean }>("POST", `/v1/routes/${encodeURIComponent(route)}/resume`);
    return resumed;
  }

  /** Ends the stops of an account's used-up quotas; returns their names. */
  async resumeAccount(account: string): Promise<string[]> {
    const { ended } = await this.#connection.json<{ ended: string[] }>("POST", `/v1/accounts/${encodeURIComponent(account)}/resume`);
    return ended;
  }

  /** Reads the settings file again, as SIGHUP does. `settings_refused` when it has faults: the relay keeps its settings. */
  reload(): Promise<Reload> {
    return this.#connection.json("POST", "/v1/reload");
  }

  /** What `reconcile` would poll; polls nothing. */
  async planReconcile(filter: ReconcileFilter = {}): Promise<AccountPlan[]> {
    const { accounts } = await this.#connection.json<{ accounts: AccountPlan[] }>("POST", "/v1/reconcile", { ...filter, dryRun: true });
    return accounts;
  }

  /** Polls every message that is due now, in as many calls as it takes; returns the results by account. */
  reconcile(filter: ReconcileFilter = {}): Promise<AccountReconciled[]> {
    return reconcile(this.#connection, filter);
  }

  #read<T>(path: string, query: object = {}): Promise<T> {
    return this.#connection.json("GET", `${path}${queryOf({ ...query })}`);
  }
}

/** For a page that the relay serves, leave out `token`: the session cookie of the browser authorizes the requests. */
export function createRelayClient(options: RelayClientOptions): RelayClient {
  return new RelayClient(options);
}
