import type { Disposition } from "../event/plan.ts";
import type { TrackedReading } from "./tracked-port.ts";

/**
 * What the control API asks of the relay. Views are plain data that go out as JSON; times in them are
 * unix ms and leave as ISO 8601 (see `present.ts`).
 */
export interface Control extends Reading, Writing {}

/** One page of a list; `next` asks for the one after it, null at the end. A page may be short and still have a next one. */
export interface Page<T, Next> {
  readonly data: readonly T[];
  readonly next: Next | null;
}

export interface EventPage extends Page<EventView, number> {
  /** Of a question by wamid: so many of the events that wait to be planned may belong here, and were not looked at. */
  readonly unseen: number;
}

/** What can be asked of a store without writing; also beside a relay that runs. */
export interface Reading extends TrackedReading {
  /** Newest first. */
  listEvents(filter: EventQuery): Promise<EventPage>;
  /** By `seq` when `id` is digits and there is such a one, else by event id: one for each account that has it. */
  findEvents(id: string): Promise<readonly EventDetail[]>;
  /** Newest events first. */
  listDeliveries(filter: DeliveryQuery): Promise<Page<DeliveryView, string>>;
  deliveriesOf(event: number): Promise<readonly (DeliveryView & { readonly tries: readonly AttemptView[] })[]>;
  stats(): Promise<unknown>;
}

export interface Writing {
  /** Null when there is no such delivery. Throws `conflict` when its route is not in the settings. */
  retry(deliveryId: string): Promise<Retried | null>;
  countReplay(filter: ReplayQuery): Promise<ReplayCount>;
  /** Sends again what `filter` means, from `cursor` (null: from the start) on, up to `limit` deliveries or some seconds. */
  replay(filter: ReplayQuery, cursor: string | null, limit: number): Promise<ReplayDone>;
  /** All or none. Throws `bad_request`, or `conflict` when one contradicts what is stored. */
  register(registrations: readonly Registration[]): Promise<{ created: number; known: number }>;
  /** Each on its own; gives what became of each, in order. */
  registerEach(registrations: readonly Registration[]): Promise<RegistrationOutcome[]>;
  /** Null when no such route is in the settings; else whether its destination was stopped or paused. */
  resume(route: string): Promise<boolean | null>;
  /** Null when no such account is in the settings; else the stops of quotas that it ended. */
  resumeAccount(account: string): Promise<readonly string[] | null>;
}

export interface EventQuery {
  event?: string | undefined;
  source?: string | undefined;
  account?: string | undefined;
  status?: string | undefined;
  disposition?: Disposition | undefined;
  wamid?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
  before?: number | undefined;
  limit: number;
}

export interface EventView {
  readonly seq: number;
  readonly account: string;
  readonly receivedAt: number;
  readonly createdAt: number | null;
  readonly parkedUntil: number | null;
}

export interface EventDetail extends EventView {
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly verdicts: readonly (readonly [route: string, verdict: string, reason?: string])[];
  /** What became of an event that came without its data; null for all others. */
  readonly hydration: HydrationView | null;
}

export interface HydrationView {
  readonly state: string;
  readonly settledAt: number | null;
}

export interface DeliveryQuery {
  route?: string | undefined;
  state?: "waiting" | "held" | "delivered" | "dead" | undefined;
  /** `next` of the page before. */
  before?: string | undefined;
  limit: number;
}

export interface DeliveryView {
  readonly id: string;
  readonly event: number;
  readonly nextAt: number | null;
  readonly settledAt: number | null;
}

export interface AttemptView {
  readonly number: number;
  readonly at: number;
  readonly tookMs: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly response: Buffer | null;
}

export interface Retried {
  readonly id: string;
  readonly route: string;
  /** `waiting`: goes out now; `held`: after an earlier one of its message. */
  readonly state: string;
  /** Its state until now. */
  readonly previousState: string;
  /** Why the route's destination is stopped, and the delivery waits for it; null when it is not. */
  readonly stopped: string | null;
  /** Unix ms until which the destination asked not to be called (429 with Retry-After); null when it did not. */
  readonly pausedUntil: number | null;
}

export interface ReplayQuery {
  route?: string | undefined;
  /**
   * Of the events. `filtered` and `ignored` ones have no deliveries: they are judged anew, and `states` says nothing.
   * `quarantined` ones are read anew, and released when they are valid events by now.
   */
  disposition?: "forwarded" | "filtered" | "ignored" | "quarantined" | undefined;
  /** Only of quarantined ones: of this source. */
  source?: string | undefined;
  /** Only of quarantined ones: this one alone, by its seq. */
  event?: number | undefined;
  states: readonly ("delivered" | "dead")[];
  errorCode?: string | undefined;
  from?: number | undefined;
  to?: number | undefined;
}

export interface ReplayCount {
  readonly matching: number;
  readonly routes: readonly { readonly route: string; readonly matching: number; readonly stopped: string | null }[];
  /** Deliveries that match but cannot go: their route is not in the settings, or a proxied exchange is over. */
  readonly notSent: readonly { readonly route: string; readonly matching: number }[];
  /** Only of quarantined events: why those that stay are no valid events. */
  readonly invalid?: readonly { readonly reason: string; readonly events: number }[];
}

export interface ReplayDone {
  /** Deliveries that go out again; of quarantined events, those released. */
  readonly replayed: number;
  /** Where to go on; null: nothing is left. */
  readonly next: string | null;
  /** Only of quarantined events: those whose event id was known, and those that stay. */
  readonly duplicates?: number;
  readonly invalid?: number;
}

export interface Registration {
  account: string;
  wamid: string;
  /** The service's. */
  id?: string | undefined;
  reference?: string | undefined;
  /** The service's. */
  conversationId?: string | undefined;
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** Unix ms. */
  sentAt?: number | undefined;
}

export type RegistrationOutcome =
  | { readonly result: "created" | "known" }
  | { readonly result: "conflict" | "invalid"; readonly error: string; readonly details?: unknown };
