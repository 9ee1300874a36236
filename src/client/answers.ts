/** Requests and answers of the control API, as in docs/endpoints.md. Times in answers are ISO 8601, UTC. */

export type Time = Date | string;

export interface MessageRegistration {
  account: string;
  wamid: string;
  /** The service's message id. */
  id?: string | undefined;
  /** Your own reference, such as an order number. */
  reference?: string | undefined;
  conversationId?: string | undefined;
  /** For routes, and passed on with `payload: enriched`. */
  metadata?: Readonly<Record<string, unknown>> | undefined;
  /** When it was sent; text needs a time zone. Default: the time of registration. */
  sentAt?: Time | undefined;
}

export interface TrackedLine {
  /** The message's number in the input, from 1. */
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
  disposition?: "routed" | "filtered" | "ignored" | "quarantined" | "released" | "parked" | "accepted" | undefined;
  /** With Redis, if more than 50,000 events are unplanned, only the newest of those are searched. */
  wamid?: string | undefined;
  /** Received from this time on. */
  from?: Time | undefined;
  /** Received before this time. */
  to?: Time | undefined;
  /** Most events in total. Default: all that match. */
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
  /** Fingerprint of the secret that verified it. */
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
  /** For a released body: the seq of the event that it became. */
  releasedAs: number | null;
  /** For an event released from quarantine: the seq of its body. */
  releasedFrom: number | null;
  size: number;
}

export interface RelayEventDetail extends RelayEvent {
  headers: Record<string, string>;
  /** The received bytes, in base64. */
  body: string;
  /** The same as text; null when they are not UTF-8. */
  text: string | null;
  /** Hydration of a truncated event; null for all others. */
  hydration: {
    /** `waiting`, `done` or `given-up`. */
    state: string;
    /** Why the relay gave up. */
    reason: string | null;
    /** Number of messages polled. */
    asked: number;
    /** The changes found, as the events that they became; the first hundred. */
    found: { id: string; seq: number; wamid: string | null; status: string | null }[];
    foundCount: number;
    /** Tracked messages or runs that are candidates and were not polled; null: not counted. */
    unknown: number | null;
    /** For results of automations: the open runs that are candidates. */
    candidates: { runId: string; reference: string | null }[] | null;
    settledAt: string | null;
  } | null;
  routes: { route: string; verdict: string; reason?: string }[];
  deliveries: (RelayDelivery & { tries: Attempt[] })[];
}

export interface DeliveryFilter {
  route?: string | undefined;
  state?: "waiting" | "held" | "delivered" | "dead" | undefined;
  /** Most deliveries in total. Default: all that match. */
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
  /** Why the destination is stopped; null when it is not. */
  stopped: string | null;
  /** Until when the destination is paused (429 with Retry-After); null when it is not. */
  pausedUntil: string | null;
}

export interface ReplayFilter {
  route?: string | undefined;
  /** Default: `["dead"]`. */
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

interface Tracked {
  account: string;
  reference: string | null;
  metadata: Readonly<Record<string, unknown>> | null;
  status: string | null;
  /** When each status was first seen. */
  times: Readonly<Record<string, string>>;
  /** Null: seen, but not registered. */
  registeredAt: string | null;
  updatedAt: string;
}

export interface RelayMessage extends Tracked {
  wamid: string;
  /** The service's message id. */
  id: string | null;
  conversationId: string | null;
  errorCode: string | null;
  /** When it was sent, according to its registration. */
  sentAt: string | null;
}

export interface RelayRun extends Tracked {
  runId: string;
  /** Why it failed. */
  error: string | null;
}

export interface MessageFilter {
  account?: string | undefined;
  status?: string | undefined;
  reference?: string | undefined;
  /** Most items in total. Default: all that match. */
  limit?: number | undefined;
}

export interface RunFilter extends MessageFilter {
  runId?: string | undefined;
}

/** How often one secret of a source verified webhooks. */
export interface SecretUse {
  source: string;
  /** The fingerprint. */
  secret: string;
  /** Its place in the current settings; null when it was removed. */
  place: string | null;
  events: number;
  duplicates: number;
  firstAt: string | null;
  lastAt: string | null;
}
