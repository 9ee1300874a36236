import type { EventId } from "../event/ids.ts";
import type { QuarantinedBody, ReceivedEvent } from "../event/received.ts";
import type { SendKey } from "../event/send-key.ts";
import type { Soon } from "../event/soon.ts";
import type { Settlement } from "../event/stored-delivery.ts";
import type { MessageState } from "../event/tracking.ts";
import type { AlarmInForce, NotedAlarmChange } from "./alarms.ts";
import type { AskClaim, AskCounts, AskQuery, CallCount, ClaimedAsk, DayCalls, RecentCall, SettledAsk } from "./asks.ts";
import type {
  CoveredEvents,
  Covering,
  HydrationEnd,
  ReadMessage,
  SettledHydrations,
  SweepView,
  TrackedQuery,
  TrackedView,
} from "./hydrations.ts";
import type { Inspecting } from "./inspecting.ts";
import type { RetentionTimes, Swept } from "./keeping.ts";
import type { AcceptOutcome, DueDelivery } from "./planned.ts";
import type { Quarantine } from "./quarantine.ts";
import type { StoreReading } from "./reading.ts";
import type { MessageRegistration, Registered } from "./registration.ts";
import type { PlanAgainFilter, ReplayCursor, Replayed, ReplayFilter, ReplayFound, Retried } from "./replay-filters.ts";
import type { SendClaim, SendEnd, StoredSend } from "./sends.ts";
import type { Sighting, SightingsRead } from "./sightings.ts";

/** What a store tells whoever watches it. */
export interface StoreHooks {
  /** Writes are stored: how long that took, and how many they were. */
  committed(tookMs: number, writes: number): void;
  /** Storing is not possible. May be told again and again. */
  failed(error: unknown): void;
  /** True while more events can be expected within one turn of the event loop. Not given: never. */
  readonly arriving?: (() => boolean) | undefined;
}

/** Who sends what is due, in this process. */
export interface DueListener {
  /** Deliveries that were planned or released; `at` is unix ms. */
  offer(due: readonly DueDelivery[]): void;
  /** Something else has changed about a route's deliveries: they are to be looked at again. */
  wake(route: string): void;
}

/**
 * Everything the relay asks of its store, whichever engine it is, but for the deliveries' own side (claims and
 * settlements of the workers). Each write is one step that happens whole or not at all, and is durable once its promise
 * resolves; while storing is not possible writes reject with `StoreUnavailable`, and go on by themselves when it is
 * again. Times are unix ms. Deliveries are named by route and the event's seq.
 */
export interface Store extends Accepting, Replays, Quarantine, Sends, Asks, Hydrations, Sightings, Housekeeping {
  readonly read: StoreReading;
  readonly inspecting: Inspecting;
  /**
   * True when other processes write into it too: then what they do is to be looked for, and what one process must do
   * alone takes its `duty`.
   */
  readonly isShared: boolean;
  /**
   * Whether this process has a duty for the next `forMs`; while one has it, no other does. Of an embedded store there is
   * only one process, which has them all.
   */
  duty(name: string, forMs: number): Soon<boolean>;

  /** Deliveries became due by what this process did: whoever sends them is told, here or in another process. */
  announce(due: readonly DueDelivery[]): void;
  /** Told of what is announced, here and elsewhere, and of routes that were resumed. The function returned ends that. */
  onDue(listener: DueListener): () => void;
  /** Calls `wake` after events were stored, by whichever process, some at a time; the function returned ends that. */
  onStored(wake: () => void): () => void;

  /** Resolves when what was handed in is stored or has failed, and everything is let go. */
  close(): Promise<void>;
}

interface Accepting {
  /**
   * Accept, dedupe, track and plan, in one step; what became due is `announce`d by whoever called. Where other processes
   * plan, an event about a message is deduped and stored alone, and is `accepted` until they have. `proxyRoute`: the
   * exchange that a `mode: proxy` source makes at once, recorded as a delivery that no dispatcher picks up.
   */
  accept(event: ReceivedEvent, proxyRoute?: string | null): Promise<AcceptOutcome>;
  /**
   * The id of the event that a signed request is: `id`, or that which it was given within `forMs` before. Nothing else rests
   * on it than the id, so a process that ends before it stores the event leaves it to the next one that has the request.
   */
  nameRequest(request: string, id: EventId, now: number, forMs: number): Promise<EventId>;
  /** Gives its seq. */
  quarantine(body: QuarantinedBody): Promise<number>;
  /** What came of an exchange that this process made itself. */
  settleExchange(settlement: Settlement): Promise<unknown>;
  /** Ends exchanges of processes that are no more: nobody was answered. Gives how many. */
  endLeftExchanges(at: number, reason: string): Promise<number>;
  /** All or none: rejects with a `conflict` when one contradicts what is stored. */
  register(registrations: readonly MessageRegistration[], at: number): Promise<{ created: number; due: readonly DueDelivery[] }>;
  /** Each on its own: one that contradicts what is stored leaves the others be. In order. */
  registerEach(registrations: readonly MessageRegistration[], at: number): Promise<readonly Registered[]>;
  /** Null when nothing is known of the message. */
  messageState(account: string, wamid: string): Soon<MessageState | null>;
  /** Null when nobody has listened under this name. */
  findCursor(name: string): Soon<number | null>;
  /** Never goes back: gives where it stands now. */
  moveCursor(name: string, seq: number, at: number): Promise<number>;
}

interface Replays {
  /** Starts a stopped destination again and tells its senders; false: it was not stopped. */
  resume(route: string): Promise<boolean>;
  /** One delivery, retried whatever its state: a settled one waits again, a waiting one goes out at once. Null: there is none. */
  retry(event: number, route: string, at: number): Promise<Retried | null>;
  /** The next settled deliveries that a replay means, `limit` looked at, and how far it has come; writes nothing. */
  findReplay(filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): Soon<ReplayFound>;
  /** Those of `found` that are still settled wait again, under their old ids. */
  replay(found: ReplayFound["found"], states: ReplayFilter["states"], at: number): Promise<Replayed>;
  /** Events that went nowhere and that routes of today would get, `limit` looked at; writes nothing. */
  findUnplanned(filter: PlanAgainFilter, cursor: ReplayCursor, limit: number): Soon<ReplayFound>;
  /** Those of the events that still are what the filter means get their deliveries. */
  planAgain(events: readonly number[], filter: PlanAgainFilter, at: number): Promise<Replayed>;
}

/** As `SendStore` in src/send/keys.ts. */
interface Sends {
  findSend(key: SendKey): Soon<StoredSend | null>;
  beginSend(key: SendKey, claim: SendClaim): Promise<StoredSend | null>;
  settleSend(key: SendKey, ended: SendEnd): Promise<readonly DueDelivery[]>;
}

/** As `AskStore` in src/reconcile/port.ts, and the calls that were made. */
interface Asks {
  claimAsks(claim: AskClaim): Promise<readonly ClaimedAsk[]>;
  settleAsks(settled: readonly SettledAsk[]): Promise<void>;
  countAsks(query: AskQuery): Soon<AskCounts>;
  /** The days from `from` on, earliest first. */
  serviceCalls(account: string, from: number): Soon<readonly DayCalls[]>;
  addServiceCalls(counts: readonly CallCount[]): Promise<void>;
  /** Calls of processes that are no more which the caps must count, earliest first; none where processes share the caps themselves. */
  recentCalls(account: string, from: number): readonly RecentCall[];
  noteCall(account: string, call: RecentCall): Promise<void>;
}

/** As `HydrationStore` in src/hydrate/candidates.ts; what is released comes back as due. */
interface Hydrations {
  waitingAccounts(): Soon<readonly string[]>;
  waitingSince(account: string): Soon<number | null>;
  /** Goes on with the account's sweep, whichever process began it, or begins one; null: nothing waits. One at a time per account. */
  beginSweep(account: string, now: number): Promise<SweepView | null>;
  covered(sweep: Covering): Soon<CoveredEvents | null>;
  targets(sweep: Covering, limit: number): Soon<readonly string[]>;
  /** `wamid`: of the message that the service has under this id; null: it has none, and the events are left to the sweep. */
  settleTarget(sweep: Covering, target: string, wamid: string | null, now: number): Promise<SettledHydrations>;
  trackedMessages(account: string, query: TrackedQuery): Soon<readonly TrackedView[]>;
  noteAsked(sweep: Covering, asked: number, read: readonly ReadMessage[]): Promise<void>;
  callsSince(account: string, since: number): Soon<number>;
  settleCovered(sweep: Covering, end: HydrationEnd, now: number, limit: number): Promise<SettledHydrations>;
  endSweep(sweep: Covering, now: number): Promise<void>;
}

/** What processes tell one another about the absence of webhooks; of an embedded store there is only one, which tells nothing. */
interface Sightings {
  /** Kept for as long as the longest `silence.after`, and not for ever. */
  noteSightings(sightings: readonly Sighting[]): Promise<void>;
  /** Those noted after a place; null: after the time `from`. */
  sightings(place: string | null, from: number): Soon<SightingsRead>;
  /** Of a store that processes share: alarms that one of them told of, and that are not over. */
  alarmsInForce(): Soon<readonly AlarmInForce[]>;
  /** Whether this process is the one to tell of the change: nobody else is. It is not told of until `alarmTold`. */
  noteAlarm(change: NotedAlarmChange): Soon<boolean>;
  /** Changes noted and not told of: whoever was to may have died before. */
  untoldAlarms(): Soon<readonly NotedAlarmChange[]>;
  alarmTold(change: NotedAlarmChange): Soon<void>;
}

/** Each call is a small step; what is left is for the next one. */
interface Housekeeping {
  /**
   * Goes on releasing what was parked for messages and runs that are registered, when that was too much for the step that
   * registered them. Gives how many events it released, 0 when none are left, and what is due of them.
   */
  releaseParked(now: number, limit: number): Promise<{ readonly released: number; readonly due: readonly DueDelivery[] }>;
  /** Ends parked events whose time is up; gives how many, 0 when there are none. */
  expireParked(now: number, limit: number): Promise<number>;
  sweep(now: number, keep: RetentionTimes, limit: number): Promise<Swept>;
  /** Forgets keys of messages that were used before `before`; gives how many. */
  forgetSends(before: number, limit: number): Promise<number>;
  /** False when it can be known without writing that nothing can be stored; the hooks are told why. */
  isInPlace(): Soon<boolean>;
  /** Writes a mark and waits for it: proves that storing works now. */
  probe(at: number): Promise<void>;
}
