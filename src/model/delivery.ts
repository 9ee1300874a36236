import type { KeptHeaders, Origin } from "./event.ts";
import type { HydrationBrief } from "./hydration.ts";
import type { EventId } from "./ids.ts";
import { type RedisFaultKind, redisFaultKinds } from "./redis.ts";

/**
 * The states of a delivery.
 *
 * | state | meaning | moves to |
 * |---|---|---|
 * | `waiting` | owed, goes out when `nextAt` has come | `delivered`, `dead`, `waiting` (after a failed attempt) |
 * | `held` | owed, but an earlier delivery of the same message on the same route is still open | `waiting` |
 * | `delivered` | the destination took it | `waiting` (replay) |
 * | `dead` | out of attempts, or refused for good: the dead letter | `waiting` (retry, replay) |
 */
export const deliveryStates = ["waiting", "held", "delivered", "dead"] as const;
export type DeliveryState = (typeof deliveryStates)[number];

/** What came of one attempt to deliver, as data: what follows from it is decided by `decide` in deliver/. */
export type AttemptResult =
  | { readonly kind: "answered"; readonly status: number; readonly retryAfterMs: number | null }
  /** A queue or a stream has it. */
  | { readonly kind: "taken" }
  | { readonly kind: "failed"; readonly error: AttemptError };

/** What can come of one to a URL. */
export type UrlResult = Exclude<AttemptResult, { kind: "taken" }>;

/**
 * Why a URL gave no answer. `blocked` is the guard against private addresses, before a byte was sent; `internal` is a fault
 * of the relay, of any destination.
 */
const urlErrors = ["timeout", "connect", "dns", "reset", "tls", "blocked", "protocol", "aborted", "internal"] as const;

/**
 * Why an attempt failed without a status. Of a queue or a stream: what is wrong with its Redis, or `refused`, when
 * Redis is well and does not take this (a key of another type).
 */
export const attemptErrors = [...urlErrors, ...redisFaultKinds, "refused"] as const;
export type AttemptError = (typeof attemptErrors)[number];

/** True when the error says that the whole destination can take nothing now: no delivery is to blame, nor given up for it. */
export function isOutage(error: AttemptError): error is RedisFaultKind {
  return (redisFaultKinds as readonly string[]).includes(error);
}

/** One attempt as it is kept. */
export interface Attempt {
  /** 1 for the first. */
  readonly number: number;
  /** Unix milliseconds at which it began. */
  readonly at: number;
  /** How long it took, in milliseconds. */
  readonly tookMs: number;
  readonly result: AttemptResult;
  /** The first 4 KiB of the answer's body, or the text of the error. */
  readonly response: Buffer | null;
}

/** Longest response kept with an attempt, in bytes (DESIGN.md, "deliver"). */
export const keptResponseBytes = 4096;

/** A delivery with all that an attempt needs, as the store gives it. */
export interface StoredDelivery {
  readonly route: string;
  /** The event's seq. */
  readonly event: number;
  readonly account: string;
  readonly source: string;
  readonly eventId: EventId;
  /** Event kind. */
  readonly kind: string;
  readonly origin: Origin;
  /** Unix ms at which the event was accepted. */
  readonly receivedAt: number;
  readonly body: Buffer;
  readonly headers: KeptHeaders;
  /** Attempts made in all, and since it was planned or last replayed. */
  readonly attempts: number;
  readonly spent: number;
  readonly replays: number;
  /** The message or run it is about. */
  readonly subject: DeliverySubject | null;
  /** What is known of an event that came without its data; not given: it came with them. */
  readonly hydration?: HydrationBrief;
}

export interface DeliverySubject {
  readonly type: "message" | "run";
  /** wamid or run id. */
  readonly key: string;
  readonly tracked: boolean;
  /** The service's id of a message, when known. */
  readonly id: string | null;
  readonly reference: string | null;
  readonly metadata: Readonly<Record<string, unknown>> | null;
  /** Status before the event; the event's own is in its data. */
  readonly previousStatus: string | null;
  readonly status: string | null;
  /** True when the event was a transition. */
  readonly moved: boolean;
}

/** How a delivery goes on after an attempt. */
export type Settled =
  | { readonly to: "delivered" }
  /** `spares`: the attempt is written down, and not counted among those it may have (`spent`). */
  | { readonly to: "waiting"; readonly nextAt: number; readonly spares?: boolean }
  | { readonly to: "dead"; readonly reason: string };

/** What an attempt made of a delivery. `attempt.number` is one more than the delivery's `attempts`. */
export interface Settlement {
  readonly route: string;
  readonly event: number;
  /** That event's own id, where it is known: a store that has lost events since gives their numbers to others. */
  readonly eventId?: EventId;
  readonly attempt: Attempt;
  readonly settled: Settled;
  /** Unix ms. */
  readonly at: number;
  /** When the destination refused everything from now on (410): why. */
  readonly stop?: string;
  /** When the destination asked not to be called until then, in unix ms (429): `breaker` names the settings it holds for. */
  readonly pause?: { readonly breaker: string; readonly until: number };
}

const prefix = "proxy:";

/** The name under which a proxied exchange stands among the deliveries. No route can be called so. */
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
