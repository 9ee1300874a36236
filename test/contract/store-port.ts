import type { AuditFilter, AuditReport } from "../../src/model/audit.ts";
import type { DeliveryState, Settlement, StoredDelivery } from "../../src/model/delivery.ts";
import type { QuarantinedBody, ReceivedEvent } from "../../src/model/event.ts";
import type { GaugeSample, QualityQuery, QualityView, SeriesQuery, SeriesView } from "../../src/model/history.ts";
import type { HydrationStore } from "../../src/model/hydration.ts";
import type { EventId } from "../../src/model/ids.ts";
import type { Disposition } from "../../src/model/plan.ts";
import type { ClaimedPoll, LastPass, PollCounts, PollStore, SettledPoll } from "../../src/model/poll.ts";
import type { SendClaim, SendEnd, SendKey, StoredSend } from "../../src/model/send.ts";
import type { Store } from "../../src/store/create-store.ts";
import type { AcceptOutcome, DueDelivery, ReplayFilter, Rules } from "../../src/store/port.ts";
import type { StoreReading } from "../../src/store/read/reading.ts";

type MaybePromise<T> = T | Promise<T>;

/** What the contract asks of a store, whichever engine it is. Deliveries are named by route and the event's seq; times are unix ms. */
export interface ContractStore extends Omit<HydrationStore, "settleCovered">, Pick<Store, "findQuarantined" | "quarantined" | "release"> {
  readonly read: StoreReading;
  accept(event: ReceivedEvent): Promise<AcceptOutcome>;
  quarantine(body: QuarantinedBody): Promise<{ readonly seq: number }>;
  nameRequest(request: string, id: EventId, now: number, forMs: number): Promise<EventId>;
  claimOnce(key: string, until: number): Promise<boolean>;
  isClaimed(key: string): MaybePromise<boolean>;
  /** Rejects, with nothing written, when one of them contradicts what is stored. */
  register(
    registrations: readonly {
      account: string;
      wamid: string;
      id?: string;
      reference?: string;
      metadata?: Record<string, unknown>;
      sentAt?: number;
    }[],
    at: number,
  ): Promise<{ created: number; due: readonly DueDelivery[] }>;
  /** Each on its own: a conflict does not affect the others. */
  registerEach: Store["registerEach"];
  due(route: string, now: number, limit: number): MaybePromise<number[]>;
  nextDueAt(route: string, now: number): MaybePromise<number | null>;
  load(route: string, event: number): MaybePromise<StoredDelivery | null>;
  settle(settlement: Settlement): Promise<number | null>;
  stopReason(route: string): MaybePromise<string | null>;
  resume(route: string): Promise<boolean>;
  retry(event: number, route: string, at: number): Promise<{ state: DeliveryState; due: DueDelivery | null } | null>;
  /** All that the filter means, however many steps it takes; `afterStep` runs between them. */
  replay(
    filter: ReplayFilter,
    at: number,
    afterStep?: (due: readonly DueDelivery[]) => Promise<void>,
  ): Promise<{ replayed: number; due: readonly DueDelivery[] }>;
  /** Filtered events that routes take now get their deliveries, however many steps it takes. */
  replayFiltered(at: number): Promise<{ replayed: number; due: readonly DueDelivery[] }>;
  /** Goes on releasing what registrations left, in a step of its own. */
  releaseParked(now: number, limit: number): Promise<{ released: number; due: readonly DueDelivery[] }>;
  expireParked(now: number, limit: number): Promise<number>;
  /** One small step of retention, looking at `limit` rows at most. */
  purge(now: number, keep: Keep, limit: number): Promise<{ events: number; deliveries: number; messages: number; done: boolean }>;

  /** As `SendStore` in src/send/keys.ts; what a send releases comes back as due. */
  findSend(key: SendKey): MaybePromise<StoredSend | null>;
  beginSend(key: SendKey, claim: SendClaim): Promise<StoredSend | null>;
  settleSend(key: SendKey, ended: SendEnd): Promise<readonly DueDelivery[]>;
  forgetSends(before: number, limit: number): Promise<number>;
  /** As `PollStore` in src/model/poll.ts. */
  claimPolls(claim: Parameters<PollStore["claimPolls"]>[0]): Promise<readonly ClaimedPoll[]>;
  settlePolls(settled: readonly SettledPoll[]): Promise<void>;
  countPolls(query: Parameters<PollStore["countPolls"]>[0]): MaybePromise<PollCounts>;
  notePass(pass: LastPass): MaybePromise<void>;
  lastPasses(): MaybePromise<readonly LastPass[]>;
  /** Calls to the service by day (unix ms of its begin), from `from` on. */
  serviceCalls(
    account: string,
    from: number,
  ): MaybePromise<readonly { readonly day: number; readonly polls: number; readonly others: number }[]>;
  addServiceCalls(
    counts: readonly { readonly account: string; readonly day: number; readonly polls: number; readonly others: number }[],
  ): Promise<void>;
  /** Everything that is stored, held to the rules. `now` is unix ms. */
  audit(now: number, filter?: AuditFilter): MaybePromise<AuditReport>;
  /** The counts of a series by the minute or hour, as `/v1/series` answers them. */
  series(query: SeriesQuery): MaybePromise<SeriesView>;
  quality(query: QualityQuery): MaybePromise<QualityView>;
  noteAcknowledged(tookMs: number, at: number): void;
  sampleGauges(values: GaugeSample, at: number): Promise<void>;
  /** What each secret has proved so far. */
  secretUses(): MaybePromise<readonly ContractSecretUse[]>;

  /** As `HydrationStore` in src/hydrate/candidates.ts; what these two release comes back as due. */
  settleCovered(...order: Parameters<HydrationStore["settleCovered"]>): Promise<{ events: number; due: readonly DueDelivery[] }>;

  /** The seqs of an event id, one per account that has it. */
  seqsOf(id: string): MaybePromise<readonly number[]>;
  /** By seq, null when it is gone. */
  event(seq: number): MaybePromise<ContractEvent | null>;
  delivery(event: number, route: string): MaybePromise<ContractDelivery | null>;
  /** The whole state of a message or run as it is stored; null when there is none. */
  message(account: string, wamid: string): MaybePromise<ContractMessage | null>;
  run(account: string, runId: string): MaybePromise<{ status: string | null } | null>;
}

export interface ContractSecretUse {
  readonly source: string;
  readonly secret: string;
  readonly events: number;
  readonly duplicates: number;
  readonly firstAt: number;
  readonly lastAt: number;
}

/** How long rows are kept, in milliseconds. */
export interface Keep {
  readonly events: number;
  readonly ignored: number;
  readonly deliveries: number;
  readonly messages: number;
  readonly history: number;
}

export interface ContractEvent {
  readonly id: string | null;
  readonly event: string | null;
  readonly account: string;
  readonly source: string;
  readonly secret: string | null;
  readonly disposition: Disposition;
  readonly previousStatus: string | null;
  readonly transition: boolean;
  readonly parkedUntil: number | null;
  readonly duplicates: number;
  readonly conflicts: number;
  readonly fault: string | null;
  readonly releasedAs: number | null;
  readonly releasedFrom: number | null;
  readonly body: Buffer;
  readonly verdicts: readonly (readonly [route: string, verdict: string, reason?: string])[];
  readonly hydration: ContractHydration | null;
}

export interface ContractHydration {
  readonly state: string;
  readonly reason: string | null;
  readonly polled: number;
  readonly found: readonly { readonly wamid: string | null; readonly status: string | null }[];
  readonly foundCount: number;
  readonly unknown: number | null;
  readonly settledAt: number | null;
}

export interface ContractDelivery {
  readonly id: string;
  readonly state: DeliveryState;
  readonly attempts: number;
  readonly replays: number;
  readonly nextAt: number | null;
  readonly settledAt: number | null;
  readonly reason: string | null;
  readonly attemptHistory: readonly { number: number; status: number | null; error: string | null; response: string | null }[];
}

export interface ContractMessage {
  readonly status: string | null;
  readonly errorCode: string | null;
  readonly registeredAt: number | null;
  readonly reference: string | null;
  readonly times: Readonly<Record<string, number>>;
}

/** A store of its own, empty at first. */
export interface ContractSubject {
  readonly store: ContractStore;
  /** Ends the store and opens it again on what it has kept, with other rules when they are given. */
  reopen(rules?: Rules): Promise<ContractStore>;
  end(): Promise<void>;
}

export type OpenSubject = (rules: Rules) => Promise<ContractSubject>;

export type ContractPoll = ClaimedPoll;
