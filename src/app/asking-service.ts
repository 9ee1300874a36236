import { type AskAnswer, type Hold, holdReasons, type Service } from "../reconcile/port.ts";
import { ServiceError } from "../service-api/service-error.ts";
import { pollMessage } from "./polling.ts";
import type { ServiceAccounts } from "./service-accounts.ts";

/** What reconciliation asks of the service, over the accounts' clients. */
export function createAskingService(services: Pick<ServiceAccounts, "client" | "limiters">): Service {
  function hold(account: string): Hold | null {
    const stops = services.limiters().get(account)?.stops;
    if (stops === undefined) return null;
    const holds = { ...stops, quota: stops.quota ?? stops["quota-reads"] };
    const reason = holdReasons.find((one) => holds[one] !== null);
    return reason === undefined ? null : { reason, until: holds[reason] };
  }

  return {
    accounts: () => [...services.limiters().keys()],
    async ask(account, messageId, patience) {
      const client = services.client(account);
      if (client === null) return { type: "failed", reason: "the account has no base URL and API key any more" };
      try {
        const { wamid, status, errorCode } = await pollMessage(client, messageId, { patience });
        return { type: "found", wamid, status, errorCode };
      } catch (error) {
        if (error instanceof ServiceError) return answerOf(error, hold(account));
        if (patience.aborted && error === patience.reason) return { type: "not-asked" };
        throw error;
      }
    },
    hold,
  };
}

function answerOf({ failure, message }: ServiceError, hold: Hold | null): AskAnswer {
  switch (failure.kind) {
    case "not-found":
      return { type: "missing" };
    case "unauthenticated":
    case "blocked":
      return { type: "held", reason: failure.kind, until: null };
    case "quota":
      return { type: "held", reason: "quota", until: hold?.reason === "quota" ? hold.until : failure.until };
    default:
      return { type: "failed", reason: message };
  }
}
