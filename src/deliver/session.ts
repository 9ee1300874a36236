import type { BreakerState } from "../model/breaker.ts";
import type { Clock } from "../model/clock.ts";
import type { RouteNotes, StoredDelivery } from "../model/delivery.ts";
import { maskText } from "../model/mask.ts";
import { type Breaker, createBreaker } from "./breaker.ts";
import { compose, composeOriginal } from "./compose.ts";
import type { AttemptOutcome, Destination, OutgoingDelivery } from "./destinations/destination.ts";
import { createTokenBucket, type TokenBucket } from "./rate.ts";
import { breakerName, type DestinationSettings, type LaneSettings, rateOf } from "./settings.ts";

export interface SessionParts {
  readonly clock: Clock;
  readonly connect: (to: DestinationSettings) => Destination;
  /** Another process may have delivered the route a moment ago, so its rate begins without tokens. */
  readonly takesOver?: boolean;
}

/** A destination with the settings it was made from. */
export interface DestinationSession {
  readonly settings: LaneSettings;
  readonly destination: Destination;
  readonly breaker: Breaker;
  readonly bucket: TokenBucket | null;
  /** Starts per second, of this shard. */
  readonly rate: number | undefined;
  /** The last breaker state that was reported. */
  seen: BreakerState;
}

export function openSession(settings: LaneSettings, parts: SessionParts, notes: RouteNotes): DestinationSession {
  const { to } = settings;
  const rate = rateOf(settings);
  const { now } = parts.clock;
  const destination = parts.connect(to);
  const breaker = breakerFrom(notes, settings, now);
  const bucket = rate === undefined ? null : createTokenBucket(rate, now, parts.takesOver);
  return { settings, destination, breaker, bucket, rate, seen: breaker.state() };
}

/** Changed settings begin with a closed breaker and without a pause. */
function breakerFrom({ pause, opened }: RouteNotes, settings: LaneSettings, now: () => number): Breaker {
  const name = breakerName(settings);
  const breaker = createBreaker(settings.to.breaker, now, opened?.breaker === name ? opened : null);
  if (pause?.breaker === name) breaker.pause(pausedUntil(pause.until, settings, now()));
  return breaker;
}

/** When a stored pause ends. A longer one than the settings allow: the clock was set back. */
export function pausedUntil(until: number, { to }: LaneSettings, now: number): number {
  return Math.min(until, now + ("maxRetryAfter" in to ? to.maxRetryAfter : 0));
}

interface SendHooks {
  composed?(delivery: StoredDelivery, outgoing: OutgoingDelivery): OutgoingDelivery;
  failed(delivery: StoredDelivery, stage: "compose" | "send", error: unknown): void;
}

/** One attempt; never rejects. `unsendable` is the reason why the delivery was not sent and is not retried, else null. */
export async function sendOver(session: DestinationSession, delivery: StoredDelivery, hooks: SendHooks, maySend?: () => boolean) {
  const { payload, to } = session.settings;
  let outgoing: OutgoingDelivery;
  try {
    outgoing = compose(delivery, payload, to.passSignature);
    if (hooks.composed !== undefined) outgoing = hooks.composed(delivery, outgoing);
  } catch (error) {
    hooks.failed(delivery, "compose", error);
    const unsendable = `could not be composed: ${faultText(error)}`;
    return { outgoing: composeOriginal(delivery, to.passSignature), outcome: failedOutcome(error), unsendable };
  }
  try {
    return { outgoing, outcome: await session.destination.send(outgoing, maySend), unsendable: null };
  } catch (error) {
    hooks.failed(delivery, "send", error);
    return { outgoing, outcome: failedOutcome(error), unsendable: null };
  }
}

function failedOutcome(error: unknown): AttemptOutcome {
  return { result: { kind: "failed", error: "internal" }, tookMs: 0, response: Buffer.from(faultText(error)) };
}

/** Masked, because an error's text may quote the data it failed on. */
export function faultText(error: unknown): string {
  return maskText(error instanceof Error ? error.message : String(error)).slice(0, 300);
}
