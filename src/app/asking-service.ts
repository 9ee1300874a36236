import { type Hold, holdReasons, type PollResult, type Service } from "../reconcile/port.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { ServiceError } from "../service/errors.ts";
import type { Polling } from "./polling.ts";

/** What reconciliation asks of the service, over the accounts' clients. */
export function createAskingService(services: Pick<ServiceAccounts, "limiters">, polling: Polling): Service {
  function hold(account: string): Hold | null {
    const stops = services.limiters().get(account)?.stops;
    if (stops === undefined) return null;
    const holds = { ...stops, quota: stops.quota ?? stops["quota-reads"] };
    const reason = holdReasons.find((one) => holds[one] !== null);
    return reason === undefined ? null : { reason, until: holds[reason] };
  }

  return {
    accounts: () => [...services.limiters().keys()],
    async poll(account, messageId, signal) {
      try {
        const answer = await polling.poll(account, messageId, { patience: signal });
        switch (answer.type) {
          case "no-client":
            return { type: "failed", reason: "the account has no base URL and API key any more" };
          case "error":
            return answerOf(answer.error, hold(account));
          default:
            return answer;
        }
      } catch (error) {
        if (signal.aborted && error === signal.reason) return { type: "not-polled" };
        throw error;
      }
    },
    hold,
  };
}

function answerOf({ failure, message }: ServiceError, hold: Hold | null): PollResult {
  switch (failure.kind) {
    case "unauthenticated":
    case "blocked":
      return { type: "held", reason: failure.kind, until: null };
    case "quota":
      return { type: "held", reason: "quota", until: hold?.reason === "quota" ? hold.until : failure.until };
    default:
      return { type: "failed", reason: message };
  }
}
