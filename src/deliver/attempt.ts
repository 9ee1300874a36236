import type { BreakerState } from "../model/breaker.ts";
import { type Clock, pause } from "../model/clock.ts";
import type { Settlement, StoredDelivery } from "../model/delivery.ts";
import { maskText } from "../model/mask.ts";
import { compose, composeOriginal } from "./compose.ts";
import type { Decision } from "./decide.ts";
import type { AttemptOutcome, OutgoingDelivery } from "./destinations/destination.ts";
import type { DestinationSession } from "./session.ts";

export interface AttemptReport {
  readonly delivery: StoredDelivery;
  readonly outgoing: OutgoingDelivery;
  readonly outcome: AttemptOutcome;
  readonly decision: Decision;
}

export interface LaneHooks {
  /** May add to a delivery before it is sent. Must not throw. */
  composed?(delivery: StoredDelivery, outgoing: OutgoingDelivery): OutgoingDelivery;
  attempted(report: AttemptReport): void;
  breakerMoved(route: string, state: BreakerState): void;
  stopped(route: string, reason: string): void;
  /** The destination asked for a pause until `until`, unix ms. */
  paused(route: string, until: number): void;
  storeFailed(route: string, error: unknown): void;
  /** The relay itself failed on this delivery. Others go on. */
  failed(delivery: StoredDelivery, stage: FailedStage, error: unknown): void;
}

/** Where the relay failed on a delivery. */
export type FailedStage = "compose" | "send" | "report" | "settle";

/** Wait after a failed read or write of the store. */
export const storeRetryMs = 500;

/** A settlement that fails this often while the store is available is the fault of this delivery. */
const settleTries = 3;

/** Timers ignore clock changes and sleep, so what is due is checked at least this often. */
export const longestWaitMs = 60_000;

interface SettlingParts {
  readonly settle: (settlement: Settlement) => Promise<void>;
  readonly clock: Clock;
  readonly hooks: Pick<LaneHooks, "storeFailed" | "failed">;
  /** Aborted when the lane closes. */
  readonly closing: AbortSignal;
  /** A settlement that waits for long counts no longer (-1), until it has ended (1). */
  readonly count: (by: 1 | -1) => void;
}

/**
 * Writes the outcome of an attempt. Retries while the store is unavailable. An outcome that an available store rejects
 * makes the delivery a dead letter, or keeps it in memory if that fails too: not sent again, and not blocking others.
 */
export async function settleAttempt(
  { settle, clock, hooks, closing, count }: SettlingParts,
  delivery: StoredDelivery,
  settlement: Settlement,
): Promise<void> {
  let isCounted = true;
  try {
    for (let tries = 1; ; tries++) {
      try {
        await settle(settlement);
        return;
      } catch (error) {
        if (isUnavailable(error)) tries = 0;
        if (tries < settleTries) hooks.storeFailed(settlement.route, error);
        else if (await bury(error)) return;
        // At shutdown it stays waiting in the store and is sent again (at least once).
        if (closing.aborted) return;
        if (tries >= settleTries && isCounted) {
          isCounted = false;
          count(-1);
        }
        await (isCounted ? new Promise<void>((resolve) => clock.after(storeRetryMs, resolve)) : longWait());
      }
    }
  } finally {
    if (!isCounted) count(1);
  }

  async function bury(fault: unknown): Promise<boolean> {
    hooks.failed(delivery, "settle", fault);
    const { route, event, attempt, settled, at } = settlement;
    const { eventId } = delivery;
    const reason = `${settled.to === "delivered" ? "delivered, which" : "the outcome of its attempt"} could not be stored: ${faultText(fault)}`;
    try {
      await settle({ route, event, eventId, attempt: { ...attempt, response: null }, settled: { to: "dead", reason }, at });
      return true;
    } catch {
      return false;
    }
  }

  /** The wait between tries of a settlement that no longer counts. A shutdown ends it. */
  function longWait(): Promise<void> {
    return pause(clock, longestWaitMs, closing).catch(() => {});
  }
}

/** Whether the store is unavailable for every delivery. */
function isUnavailable(error: unknown): boolean {
  return error instanceof Error && error.name === "StoreUnavailable";
}

/** One attempt; never rejects. `unsendable` is the reason why the delivery was not sent and is not retried, else null. */
export async function sendOver(
  session: DestinationSession,
  delivery: StoredDelivery,
  hooks: Pick<LaneHooks, "composed" | "failed">,
  maySend?: () => boolean,
) {
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
