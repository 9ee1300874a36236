/** What goes to the control API and comes from it, as in docs/endpoints.md. Times that come are ISO 8601, UTC. */

export type Time = Date | string;

export interface MessageRegistration {
  account: string;
  wamid: string;
  /** The service's id of the message. */
  id?: string | undefined;
  /** Your own name for it, such as an order number. */
  reference?: string | undefined;
  /** The service's. */
  conversationId?: string | undefined;
  /** For routes, and handed on with `payload: enriched`. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** When it was sent; text needs a zone. Default: when it is registered. */
  sentAt?: Time | undefined;
}

export interface TrackedLine {
  /** Number of the message among those given, from 1. */
  line: number;
  wamid: string | null;
  result: "created" | "known" | "conflict" | "invalid";
  /** With `conflict` and `invalid`. */
  error?: string;
  details?: unknown;
}

export interface TrackSums {
  lines: number;
  created: number;
  known: number;
  conflict: number;
  invalid: number;
}

export interface EventFilter {
  event?: string | undefined;
  source?: string | undefined;
  account?: string | undefined;
  status?: string | undefined;
  disposition?: "forwarded" | "filtered" | "ignored" | "quarantined" | "released" | "parked" | "accepted" | undefined;
  /** Over Redis, of more than 50,000 events that wait to be planned the newest are looked through for it. */
  wamid?: string | undefined;
  /** Received from this time on. */
  from?: Time | undefined;
  /** Received before this time. */
  to?: Time | undefined;
  /** Most events in all; not given: every one that matches. */
  limit?: number | undefined;
}

export interface RelayEvent {
  seq: number;
  id: string | null;
  event: string | null;
  account: string;
  source: string;
  origin: string;
  receivedAt: string;
  createdAt: string | null;
  /** Fingerprint of the secret that proved it. */
  secret: string | null;
  subject: { type: string; key: string } | null;
  status: string | null;
  previousStatus: string | null;
  transition: boolean;
  errorCode: string | null;
  disposition: string;
  parkedUntil: string | null;
  duplicates: number;
  conflicts: number;
  fault: string | null;
  /** Of a released body: seq of the event that it became. */
  releasedAs: number | null;
  /** Of an event that was released from quarantine: seq of the body it was read from. */
  releasedFrom: number | null;
  size: number;
}

export interface RelayEventDetail extends RelayEvent {
  headers: Record<string, string>;
  /** The bytes received, in base64. */
  body: string;
  /** The same as text; null when they are not UTF-8. */
  text: string | null;
  /** What became of an event that came without its data; null for all others. */
  hydration: {
    /** `waiting`, `done` or `given-up`. */
    state: string;
    /** Why it was given up. */
    reason: string | null;
    /** Messages that the service was asked about. */
    asked: number;
    /** The news found, as the events that they went in as; the first hundred. */
    found: { id: string; seq: number; wamid: string | null; status: string | null }[];
    foundCount: number;
    /** Tracked messages or runs that could be meant and were not read; null: not counted. */
    unknown: number | null;
    /** For results of automations: the open runs that could be meant. */
    candidates: { runId: string; reference: string | null }[] | null;
    settledAt: string | null;
  } | null;
  routes: { route: string; verdict: string; reason?: string }[];
  deliveries: (RelayDelivery & { tries: Attempt[] })[];
}

export interface DeliveryFilter {
  route?: string | undefined;
  state?: "waiting" | "held" | "delivered" | "dead" | undefined;
  /** Most deliveries in all; not given: every one that matches. */
  limit?: number | undefined;
}

export interface RelayDelivery {
  id: string;
  /** `seq` of its event. */
  event: number;
  eventId: string;
  route: string;
  state: string;
  attempts: number;
  replays: number;
  nextAt: string | null;
  settledAt: string | null;
  reason: string | null;
}

export interface Attempt {
  number: number;
  at: string;
  tookMs: number;
  status: number | null;
  error: string | null;
  response: string | null;
}

export interface Retried {
  id: string;
  route: string;
  state: string;
  previousState: string;
  /** Why the destination takes nothing at the moment; null when it does. */
  stopped: string | null;
  /** Until when the destination asked not to be called (429 with Retry-After); null when it did not. ISO 8601. */
  pausedUntil: string | null;
}

export interface ReplayFilter {
  route?: string | undefined;
  /** `["dead"]` when not given. */
  states?: readonly ("dead" | "delivered")[] | undefined;
  errorCode?: string | undefined;
  from?: Time | undefined;
  to?: Time | undefined;
}

export interface ReplayCount {
  matching: number;
  routes: { route: string; matching: number; stopped: string | null }[];
  notSent: { route: string; matching: number }[];
}

export interface RelayStats {
  dispositions: Record<string, number>;
  duplicates: number;
  deliveries: Record<string, number>;
  attempts: { made: number; failed: number };
}
