import type { KeptHeaders, Origin } from "./event.ts";
import type { HydrationBrief } from "./hydration.ts";
import type { EventId } from "./ids.ts";
import type { Shard } from "./route-lease.ts";
import type { Tracking } from "./tracking.ts";

export type AttemptResult =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfterMs: number | null }
  | { readonly kind: "taken" }
  | { readonly kind: "failed"; readonly error: AttemptError };

export type UrlResult = Exclude<AttemptResult, { kind: "taken" }>;

/**
 * Why a URL gave no valid answer. `blocked`: the guard against private addresses refused it;
 * `rejected`: `failIfBody` matches a 2xx answer; `internal`: a fault of the relay, with any kind of
 * destination.
 */
const urlErrors = [
  "timeout",
  "connect",
  "dns",
  "reset",
  "tls",
  "blocked",
  "protocol",
  "rejected",
  "aborted",
  "internal",
] as const;

/**
 * Why a Redis command fails; `net/redis` maps the answers. `hung`: connected, and does not answer
 * in time. `stranger`: the server is no Redis, or TLS fails. `replicas`: fewer than
 * `min-replicas-to-write`.
 */
export const redisFaultKinds = [
  "unreachable",
  "hung",
  "loading",
  "clients",
  "cluster",
  "credentials",
  "database",
  "stranger",
  "full",
  "read-only",
  "disk",
  "replicas",
] as const;
export type RedisFaultKind = (typeof redisFaultKinds)[number];

/**
 * Why an attempt failed without a status. `refused`: Redis works and rejects this command (a key of
 * another type).
 */
export const attemptErrors = [...urlErrors, ...redisFaultKinds, "refused"] as const;
export type AttemptError = (typeof attemptErrors)[number];

/** True when the whole destination is unavailable. No delivery is given up for such an error. */
export function isOutage(error: AttemptError): error is RedisFaultKind {
  return (redisFaultKinds as readonly string[]).includes(error);
}

export interface Attempt {
  readonly number: number;
  readonly at: number;
  readonly tookMs: number;
  readonly result: AttemptResult;
  readonly response: Buffer | null;
}

/** Longest response stored with an attempt, in bytes (DESIGN.md, "deliver"). */
export const keptResponseBytes = 4096;

export interface StoredDelivery {
  readonly route: string;
  /** The event's seq. */
  readonly event: number;
  readonly account: string;
  readonly source: string;
  readonly eventId: EventId;
  readonly kind: string;
  readonly origin: Origin;
  readonly receivedAt: number;
  /** How `body` is read. Absent: `standard`. */
  readonly format?: string;
  readonly body: Buffer;
  readonly headers: KeptHeaders;
  /** In all; `spent` since it was planned or last replayed. */
  readonly attempts: number;
  readonly spent: number;
  readonly replays: number;
  readonly subject: DeliverySubject | null;
  readonly hydration?: HydrationBrief;
}

/** Names a delivery of a route. Deliveries of a lane go out in the order of their events. */
export interface QueueKey {
  readonly lane: number;
  readonly event: number;
}

export interface QueuePlace extends QueueKey {
  readonly at: number;
}

/**
 * Where a look at a route's queue begins and ends: unix ms of `next_at`. A later `from` passes over
 * the dead head of an index.
 */
export interface DueRange {
  readonly route: string;
  readonly from: number;
  readonly now: number;
  readonly limit: number;
  readonly shard?: Shard;
}

export interface DuePlaces {
  readonly places: readonly QueuePlace[];
  /** When the next one becomes due; null: none waits, or `limit` are due. */
  readonly nextAt: number | null;
}

export interface QueuedDelivery extends StoredDelivery, QueueKey {
  readonly cause: string | null;
  readonly dueAt: number;
}

/** `previousStatus`: before the event; the event's own is in its data. */
export interface DeliverySubject
  extends Pick<
    Tracking,
    "tracked" | "id" | "reference" | "metadata" | "previousStatus" | "status"
  > {
  readonly type: "message" | "run";
  readonly key: string;
  readonly moved: boolean;
}

export type Settled =
  | { readonly to: "delivered" }
  /** `spares`: the attempt does not count toward the limit (`spent`). */
  | { readonly to: "waiting"; readonly nextAt: number; readonly spares?: boolean }
  | { readonly to: "dead"; readonly reason: string };

/** The outcome of an attempt. `attempt.number` is one more than the delivery's `attempts`. */
export interface Settlement {
  readonly route: string;
  readonly event: number;
  /** The event's id, when known. A store that lost events since then reuses their numbers. */
  readonly eventId?: EventId;
  readonly attempt: Attempt;
  readonly settled: Settled;
  readonly at: number;
  /** When the event was received, for the history of delivery times. Absent for a replay. */
  readonly receivedAt?: number;
  readonly stop?: string;
  readonly pause?: PauseNote;
  /** The breaker opened; null: it closed. Absent: unchanged. */
  readonly opened?: OpenNote | null;
  /**
   * The failed attempts of the route in a row, this one included; null: none. Absent: unchanged.
   */
  readonly failing?: Failing | null;
}

/**
 * A pause that the destination asked for (429). `breaker` names the settings that it applies to.
 */
interface PauseNote {
  readonly breaker: string;
  readonly until: number;
}

export interface OpenNote extends PauseNote {
  readonly pause: number;
}

export interface RouteNotes {
  readonly stop: RouteStop | null;
  readonly pause: PauseNote | null;
  readonly opened: OpenNote | null;
  readonly failing: Failing | null;
}

export interface Settling extends Settlement {
  readonly delivery: Pick<QueuedDelivery, "lane" | "account" | "spent" | "replays" | "cause">;
  /** The name of the lease under which it was sent. Default: the route. */
  readonly lease?: string;
}

/**
 * `released`: the next delivery of its lane, which may go out now. `late`: it was settled before,
 * or it is gone. `lost`: another worker has the route now, and nothing was stored.
 */
export type SettledOutcome =
  | { readonly result: "settled"; readonly released: QueuePlace | null }
  | { readonly result: "late" | "lost" };

const prefix = "proxy:";

/** The name of a proxied exchange in the list of deliveries. No route can have this name. */
export function proxyRoute(source: string): string {
  return `${prefix}${source}`;
}

export function isProxyRoute(route: string): boolean {
  return route.startsWith(prefix);
}

/** The part of a downstream's answer that is passed back. Other headers are dropped. */
export interface ProxiedAnswer {
  readonly status: number;
  readonly contentType: string | null;
  readonly contentEncoding: string | null;
  readonly body: Buffer;
}

export type BreakerState = "closed" | "open" | "half-open";

export interface BreakerView {
  readonly state: BreakerState;
  /** Until when the destination asked for a pause; null without one. */
  readonly pausedUntil: number | null;
  /** Until when it is open; null unless open. */
  readonly openUntil: number | null;
  /** Of the first failure in a row; null: the last attempt did not fail, or that is unknown. */
  readonly failingSince: number | null;
  readonly failing?: Failing | null;
  /** Why nothing is sent until somebody resumes the route; null: it is not stopped. */
  readonly stop: RouteStop | null;
}

export interface RouteStop {
  readonly at: number;
  readonly reason: string;
}

export interface Failing {
  readonly since: number;
  readonly attempts: number;
  /** Of the last one: an HTTP status such as `503`, or an error such as `timeout`. */
  readonly cause: string;
}

export type Slow = Omit<Failing, "cause">;
