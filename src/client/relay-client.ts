import type { AccountReconciled } from "../model/answers/accounts.ts";
import type { ReplayCount } from "../model/answers/actions.ts";
import type { StartedRun, TrackedLine, TrackSums } from "../model/answers/subjects.ts";
import type { AuditProgress, RelayAudit } from "../model/audit.ts";
import { systemClock } from "../model/clock.ts";
import { type AnswerOf, Calls, call, pagesOf, type RequestOf } from "./calls.ts";
import {
  type Connection,
  connect,
  queryOf,
  RelayClientError,
  type RelayClientOptions,
} from "./connection.ts";
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

export type {
  AccountPlan,
  AccountReconciled,
  ReconcileStop,
  RelayAccount,
} from "../model/answers/accounts.ts";
export type { ReplayCount } from "../model/answers/actions.ts";
export type {
  Attempt,
  DeliveryGroup,
  RelayDelivery,
  RelayEvent,
  RelayEventDetail,
  Retried,
} from "../model/answers/events.ts";
export type {
  RelayInstance,
  RelayListener,
  RelaySession,
  RelaySettings,
  RelayStats,
  Reload,
  SecretUse,
  SessionCode,
} from "../model/answers/relay.ts";
export type {
  RelayExplained,
  RelayMessage,
  RelayRun,
  RelayStory,
  StartedRun,
  TrackEnd,
  TrackedLine,
  TrackSums,
} from "../model/answers/subjects.ts";
export type { AuditProgress, RelayAudit } from "../model/audit.ts";
export type { SearchHit } from "../model/endpoints/read.ts";
export type { RelayOverview } from "../model/overview.ts";
export type { RelayQuality } from "../model/quality.ts";
export type { RelaySeries } from "../model/series.ts";
export type { DeliveryState, Disposition } from "../model/states.ts";
export type { AnswerOf, RequestOf } from "./calls.ts";
export {
  RelayClientError,
  type RelayClientErrorCode,
  type RelayClientOptions,
} from "./connection.ts";
export type { LiveMessage } from "./live.ts";
export type * from "./messages.ts";

type ListName = "listEvents" | "listDeliveries" | "listMessages" | "listRuns";
type Rows<Name extends ListName> = AsyncGenerator<AnswerOf<Name>["data"][number], void>;
/** Of all rows of a list: `limit` is the most rows in total. Default: all that match. */
export type FilterOf<Name extends ListName> = Omit<RequestOf<Name>, "before">;
export type AuditRange = RequestOf<"audit">;
export type ReplayFilter = Omit<RequestOf<"replay">, "dryRun" | "cursor" | "limit">;
/**
 * `account`: this one only. Default: every account that can be polled. `dueBy`: that of the plan.
 * Default: now.
 */
export type ReconcileFilter = Pick<RequestOf<"reconcile">, "account" | "dueBy">;
export type ReconcilePlan = Exclude<AnswerOf<"reconcile">, { more: boolean }>;

/** Of work that takes several requests. */
export interface StepOptions {
  /** Called after each request with the number done so far. */
  onProgress?: ((done: number) => void) | undefined;
  /** No further request is made once it is aborted; what is done stays done. */
  signal?: AbortSignal | undefined;
}

export interface ReplayStepOptions {
  /** Where to begin: the `cursor` of an earlier step. */
  cursor?: string | null | undefined;
  /** Most deliveries of one request. */
  limit?: number | undefined;
  signal?: AbortSignal | undefined;
}

export interface ReplayProgress {
  readonly replayed: number;
  /** Null: all is done. */
  readonly cursor: string | null;
}

export interface AuditOptions {
  /** Called while the audit goes on. */
  onProgress?: ((progress: AuditProgress) => void) | undefined;
  /** Throws its reason once it is aborted. */
  signal?: AbortSignal | undefined;
}

/**
 * A relay's control API (docs/reference/endpoints.md), over the global `fetch`: Node 20 or later,
 * and browsers. Has a method for each endpoint, such as `getEvent({ id })`, and those below for
 * what takes several requests. Every method throws {@link RelayClientError} when the relay refuses
 * or cannot be reached. Only `live`, and `send` and `startRun` while another request with the same
 * key is in flight, retry.
 */
export class RelayClient extends Calls {
  readonly #connection: Connection;

  /** Throws TypeError for an invalid URL or token. */
  constructor(options: RelayClientOptions) {
    const connection = connect(options);
    super(connection);
    this.#connection = connection;
  }

  /**
   * Registers a message as yours. Safe to repeat; `conflict` when it contradicts what is stored.
   * Scope `track`.
   */
  async track(message: MessageRegistration): Promise<{ result: "created" | "known" }> {
    const { created } = await this.#connection.json<{ created: number }>(
      "POST",
      "/v1/messages/track",
      message,
    );
    return { result: created === 1 ? "created" : "known" };
  }

  /**
   * Registers any number of messages: yields the result of each, in order, and returns the sums. A
   * refused message does not stop the others. Nothing is registered unless the report is read. Text
   * is JSON without line breaks. Scope `track`.
   */
  trackAll(messages: Messages): AsyncGenerator<TrackedLine, TrackSums> {
    return trackAll(this.#connection, messages);
  }

  /**
   * Sends one message through the service, once per `idempotencyKey`, and registers it. May take as
   * long as the relay's `send.maxWait` and one call of the service. `outcome_unknown` when it may
   * or may not have been sent. Scope `send`.
   */
  send(message: MessageOrder, options: MessageOptions = {}): Promise<SentMessage> {
    return sendMessage(this.#connection, message, options);
  }

  /** Starts a run of an automation, once per `reference`, for ever. Scope `send`. */
  startRun(automation: string, run: RunOrder, options: SendOptions = {}): Promise<StartedRun> {
    return startRun(this.#connection, automation, run, options);
  }

  /** Messages that are registered or have a status, newest first, read page by page. */
  messages(filter: FilterOf<"listMessages"> = {}): Rows<"listMessages"> {
    return this.#rows("listMessages", filter);
  }

  /** Newest first, read page by page. */
  runs(filter: FilterOf<"listRuns"> = {}): Rows<"listRuns"> {
    return this.#rows("listRuns", filter);
  }

  /** Newest first, read page by page. */
  events(filter: FilterOf<"listEvents"> = {}): Rows<"listEvents"> {
    return this.#rows("listEvents", filter);
  }

  /** Newest events first, read page by page. */
  deliveries(filter: FilterOf<"listDeliveries"> = {}): Rows<"listDeliveries"> {
    return this.#rows("listDeliveries", filter);
  }

  async *#rows<Name extends ListName>(
    name: Name,
    filter: { readonly limit?: number | undefined },
  ): Rows<Name> {
    const list = (
      place: object,
    ): Promise<{ data: AnswerOf<Name>["data"]; next: string | number | null }> =>
      call(this.#connection, name, { ...filter, ...place });
    for await (const { data } of pagesOf(list, filter.limit)) yield* data;
  }

  /** Whether everything received is accounted for. Takes about a second per million events. */
  async audit(
    range: AuditRange = {},
    { onProgress, signal }: AuditOptions = {},
  ): Promise<RelayAudit> {
    for (;;) {
      signal?.throwIfAborted();
      const answer: RelayAudit | AuditProgress = await call(this.#connection, "audit", range);
      if ("balanced" in answer) return answer;
      onProgress?.(answer);
    }
  }

  /**
   * The overview whenever it changes, and with `tail` the events as they are stored. Reconnects by
   * itself and continues after the last event, at most `longestWaitMs` (30 s) after the last
   * attempt. Ends when `signal` is aborted; throws when the relay refuses for good, such as 401
   * after the session ended.
   */
  live(
    filter: RequestOf<"live"> = {},
    {
      signal,
      longestWaitMs,
    }: { signal?: AbortSignal | undefined; longestWaitMs?: number | undefined } = {},
  ): AsyncGenerator<LiveMessage, void> {
    return followLive({
      connection: this.#connection,
      path: `/v1/live${queryOf(filter)}`,
      signal: signal ?? new AbortController().signal,
      longestWaitMs,
      clock: systemClock,
      random: Math.random,
    });
  }

  /** What `replay` with the same filter would send again. */
  async countReplay(filter: ReplayFilter = {}): Promise<ReplayCount> {
    return (await call(this.#connection, "replay", { ...filter, dryRun: true })) as ReplayCount;
  }

  /**
   * Sends everything again that matches, by default dead letters, in as many requests as it takes.
   * `complete` is false when `signal` ended it.
   */
  async replay(
    filter: ReplayFilter = {},
    { onProgress, signal }: StepOptions = {},
  ): Promise<{ replayed: number; complete: boolean }> {
    let last: ReplayProgress = { replayed: 0, cursor: "" };
    if (signal?.aborted !== true)
      for await (last of this.replaySteps(filter, { signal })) onProgress?.(last.replayed);
    return { replayed: last.replayed, complete: last.cursor === null };
  }

  /**
   * `replay` request by request: after each, how many went out so far and the cursor of the next.
   */
  async *replaySteps(
    filter: ReplayFilter = {},
    { cursor: from = null, limit, signal }: ReplayStepOptions = {},
  ): AsyncGenerator<ReplayProgress, void> {
    let replayed = 0;
    let cursor = from;
    do {
      const step = (await call(this.#connection, "replay", {
        ...filter,
        cursor,
        limit,
      })) as Exclude<AnswerOf<"replay">, ReplayCount>;
      replayed += step.replayed;
      // A stopping relay answers at once and does nothing.
      if (step.next !== null && step.next === cursor)
        throw new RelayClientError("the relay is stopping", {
          status: 200,
          code: "shutting_down",
          details: { replayed },
        });
      cursor = step.next;
      yield { replayed, cursor };
    } while (cursor !== null && signal?.aborted !== true);
  }

  /** What `reconcile` would poll; polls nothing. */
  async planReconcile(filter: ReconcileFilter = {}): Promise<ReconcilePlan> {
    return (await call(this.#connection, "reconcile", {
      ...filter,
      dryRun: true,
    })) as ReconcilePlan;
  }

  /**
   * Polls every message that is due, in as many calls as it takes; returns the results by account.
   */
  async reconcile(
    filter: ReconcileFilter = {},
    { onProgress, signal }: StepOptions = {},
  ): Promise<AccountReconciled[]> {
    const sums = new Map<string, AccountReconciled>();
    let { dueBy = null } = filter;
    while (signal?.aborted !== true) {
      const step = (await call(this.#connection, "reconcile", { ...filter, dueBy })) as Exclude<
        AnswerOf<"reconcile">,
        ReconcilePlan
      >;
      for (const each of step.accounts) sums.set(each.account, addUp(sums.get(each.account), each));
      if (!step.more) break;
      onProgress?.([...sums.values()].reduce((sum, { polled }) => sum + polled, 0));
      ({ dueBy } = step);
    }
    return [...sums.values()];
  }
}

function addUp(before: AccountReconciled | undefined, step: AccountReconciled): AccountReconciled {
  if (before === undefined) return step;
  const counts = ["polled", "changed", "unchanged", "missing", "failed"] as const;
  return {
    ...step,
    ...Object.fromEntries(counts.map((name) => [name, before[name] + step[name]])),
  };
}

/**
 * For a page that the relay serves, leave out `token`: the session cookie of the browser authorizes
 * the requests.
 */
export function createRelayClient(options: RelayClientOptions): RelayClient {
  return new RelayClient(options);
}
