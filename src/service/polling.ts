import { kept } from "../model/maps.ts";
import { type Hold, holdReasons, type PollAnswer, type PollFault } from "../model/poll.ts";
import type { ServiceAccounts } from "./accounts.ts";
import type { ServiceClient } from "./client.ts";
import { ServiceError } from "./errors.ts";

export interface PollingParts {
  readonly services: Pick<ServiceAccounts, "client" | "limiterOf">;
  readonly now: () => number;
  /** An account's polls became faulty; null: a message was found. */
  readonly polled: (account: string, fault: PollFault | null) => void;
}

export type Polling = ReturnType<typeof createPolling>;

/** So many answers of a kind, without a message found in between, are a fault of the account. */
const faultyAfter: Readonly<Record<PollFault["reason"], number>> = {
  "not-found": 10,
  refused: 5,
  unreadable: 5,
};

/**
 * The results of one client's polls. Another base URL or key means another client, which has to
 * find a message itself.
 */
interface Standing {
  hasFound: boolean;
  counts: Record<PollFault["reason"], number>;
  isFaulty: boolean;
}

/**
 * Polls messages for reconciliation and hydration, and judges whether an account's answers make
 * sense as a whole.
 */
export function createPolling({ services, now, polled }: PollingParts) {
  const standings = new WeakMap<ServiceClient, Standing>();

  const standingOf = (client: ServiceClient): Standing =>
    kept(standings, client, () => ({ hasFound: false, counts: noCounts(), isFaulty: false }));

  function answerTo(
    error: ServiceError,
    account: string,
    at: number,
    standing: Standing,
  ): PollAnswer {
    if (error.isClosed) return { type: "not-polled" };
    const reason = faultOf(error);
    if (reason === null) return failed(error, account);
    standing.counts[reason] += 1;
    if (standing.isFaulty || standing.counts[reason] >= faultyAfter[reason]) {
      const fault = { reason, detail: error.message };
      standing.isFaulty = true;
      polled(account, fault);
      return { type: "faulty", fault };
    }
    return reason === "not-found"
      ? { type: "missing", at, isCredible: standing.hasFound }
      : failed(error, account);
  }

  function failed({ failure }: ServiceError, account: string): PollAnswer {
    switch (failure.kind) {
      case "unauthenticated":
      case "blocked":
        return { type: "held", reason: failure.kind, until: null };
      case "quota": {
        const stop = hold(account);
        return {
          type: "held",
          reason: "quota",
          until: stop?.reason === "quota" ? stop.until : failure.until,
        };
      }
      default:
        return { type: "failed", isFinal: failure.kind === "validation", error: failure.kind };
    }
  }

  function hold(account: string): Hold | null {
    const stops = services.limiterOf(account)?.stops;
    if (stops === undefined) return null;
    const holds = { ...stops, quota: stops.quota ?? stops["quota-reads"] };
    const reason = holdReasons.find((one) => holds[one] !== null);
    return reason === undefined ? null : { reason, until: holds[reason] };
  }

  return {
    hold,
    /** Rejects with unexpected faults. */
    async poll(account: string, messageId: string, signal: AbortSignal): Promise<PollAnswer> {
      const client = services.client(account);
      if (client === null) return { type: "no-client" };
      let at = now();
      try {
        // Without retries, because reconciliation and hydration wait themselves.
        const { wamid, status, errorCode } = await client.getMessage(messageId, {
          signal,
          watch: {
            async starting() {
              at = now();
            },
            async repeating(error) {
              // A call that a cap rejected had no effect.
              if (error.kind !== "rate-limited") throw error;
            },
          },
        });
        Object.assign(standingOf(client), { hasFound: true, counts: noCounts(), isFaulty: false });
        polled(account, null);
        return { type: "found", at, wamid, status, errorCode };
      } catch (error) {
        if (error instanceof ServiceError) return answerTo(error, account, at, standingOf(client));
        if (signal.aborted && error === signal.reason) return { type: "not-polled" };
        throw error;
      }
    },
  };
}

const noCounts = (): Standing["counts"] => ({ "not-found": 0, refused: 0, unreadable: 0 });

/**
 * What the account's settings may have wrong if the error repeats; null: nothing, or the limiter
 * handles it.
 */
function faultOf({ failure, status }: ServiceError): PollFault["reason"] | null {
  switch (failure.kind) {
    case "not-found":
      return "not-found";
    case "validation":
    case "plan":
    case "conflict":
      return "refused";
    case "malformed":
      return "unreadable";
    case "undocumented":
      return status === null || status >= 500 ? null : status >= 400 ? "refused" : "unreadable";
    default:
      return null;
  }
}
