import type { PollFault } from "../reconcile/port.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { CallOptions } from "../service/call.ts";
import type { ServiceClient } from "../service/client.ts";
import { ServiceError } from "../service/errors.ts";

export type PollAnswer =
  | { readonly type: "found"; readonly wamid: string; readonly status: string; readonly errorCode: string | null }
  /** 404. `isCredible`: the same base URL and key have found other messages, and not everything is answered so. */
  | { readonly type: "missing"; readonly isCredible: boolean }
  /** The service answers polls of this account in a way that no single message explains. */
  | { readonly type: "faulty"; readonly fault: PollFault }
  | { readonly type: "error"; readonly error: ServiceError }
  | { readonly type: "no-client" };

export interface PollingParts {
  readonly services: Pick<ServiceAccounts, "client">;
  /** An account's polls became faulty, for whatever reason; null: a message was found. */
  readonly noted: (account: string, fault: PollFault | null) => void;
}

export type PollOptions = Pick<CallOptions, "signal" | "patience"> & {
  /** A request leaves now. */
  readonly leaving?: () => void;
};

export type Polling = ReturnType<typeof createPolling>;

/** Answers of a kind, without a message found between them, after which they count as a fault of the account. */
const faultyAfter: Readonly<Record<PollFault["reason"], number>> = { "not-found": 10, refused: 5, unreadable: 5 };

/** What polls through one client have brought: another base URL or key is another client, and must find something itself. */
interface Standing {
  hasFound: boolean;
  /** Since a message was found. */
  counts: Record<PollFault["reason"], number>;
  isFaulty: boolean;
}

/** Polls of messages, and whether their answers as a whole make sense. Reconciliation and hydration share it. */
export function createPolling({ services, noted }: PollingParts) {
  const standings = new WeakMap<ServiceClient, Standing>();

  function standingOf(client: ServiceClient): Standing {
    let standing = standings.get(client);
    if (standing === undefined) {
      standing = { hasFound: false, counts: noCounts(), isFaulty: false };
      standings.set(client, standing);
    }
    return standing;
  }

  function judge(account: string, standing: Standing, error: ServiceError): PollAnswer {
    const reason = faultOf(error);
    if (reason === null) return { type: "error", error };
    standing.counts[reason] += 1;
    if (standing.isFaulty || standing.counts[reason] >= faultyAfter[reason]) {
      const fault = { reason, detail: error.message };
      standing.isFaulty = true;
      noted(account, fault);
      return { type: "faulty", fault };
    }
    return reason === "not-found" ? { type: "missing", isCredible: standing.hasFound } : { type: "error", error };
  }

  return {
    /** Rejects with the reason of a signal, and with a fault nobody foresaw. */
    async poll(account: string, messageId: string, options: PollOptions): Promise<PollAnswer> {
      const client = services.client(account);
      if (client === null) return { type: "no-client" };
      try {
        const { wamid, status, errorCode } = await pollMessage(client, messageId, options);
        Object.assign(standingOf(client), { hasFound: true, counts: noCounts(), isFaulty: false });
        noted(account, null);
        return { type: "found", wamid, status, errorCode };
      } catch (error) {
        if (error instanceof ServiceError) return judge(account, standingOf(client), error);
        throw error;
      }
    },
  };
}

const noCounts = (): Standing["counts"] => ({ "not-found": 0, refused: 0, unreadable: 0 });

/** What an error says of the account's settings when it comes again and again; null: nothing, or the limiter handles it. */
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

/**
 * Reads a message after all other calls, and once, because reconciliation and hydration have waits of their own. A call
 * that a cap held back did nothing, and may go again.
 */
function pollMessage(client: ServiceClient, id: string, { leaving, ...ends }: PollOptions) {
  return client.getMessage(id, {
    ...ends,
    priority: "poll",
    watch: {
      starting: async () => leaving?.(),
      async repeating(error) {
        if (error.kind !== "rate-limited") throw error;
      },
    },
  });
}
