import { type AskAnswer, type Hold, holdReasons, type Service } from "../reconcile/port.ts";
import { ServiceError } from "../service-api/service-error.ts";
import { pollMessage } from "./polling.ts";
import type { ServiceAccounts } from "./service-accounts.ts";

/** What reconciliation asks of the service, over the accounts' clients. */
export function createAskingService(services: Pick<ServiceAccounts, "client" | "limiters">): Service {
  return {
    accounts: () => [...services.limiters().keys()],
    async ask(account, messageId, patience) {
      const client = services.client(account);
      if (client === null) return { type: "failed", reason: "the account has no base URL and API key any more" };
      try {
        const { wamid, status, errorCode } = await pollMessage(client, messageId, { patience });
        return { type: "found", wamid, status, errorCode };
      } catch (error) {
        if (error instanceof ServiceError) return answerOf(error);
        if (patience.aborted && error === patience.reason) return { type: "not-asked" };
        throw error;
      }
    },
    hold(account) {
      const stops = services.limiters().get(account)?.stops;
      if (stops === undefined) return null;
      const holds = { ...stops, quota: stops.quota ?? stops["quota-reads"] };
      const reason = holdReasons.find((one) => holds[one] !== null);
      return reason === undefined ? null : ({ reason, until: holds[reason] } satisfies Hold);
    },
  };
}

function answerOf({ failure, message }: ServiceError): AskAnswer {
  switch (failure.kind) {
    case "not-found":
      return { type: "missing" };
    case "unauthenticated":
    case "blocked":
      return { type: "held", reason: failure.kind, until: null };
    case "quota":
      return { type: "held", reason: "quota", until: failure.until };
    default:
      return { type: "failed", reason: message };
  }
}
