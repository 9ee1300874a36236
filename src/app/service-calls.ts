import { RelayError } from "../model/errors.ts";
import type { CallResult, CallSteps } from "../send/once.ts";
import type { ServiceCalls } from "../send/sending.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { CallOperation } from "../service/admission.ts";
import type { CallOptions } from "../service/call.ts";
import type { ServiceClient } from "../service/client.ts";
import { ServiceError } from "../service/errors.ts";
import type { QuotaReason } from "../service/limits/account.ts";
import type { LimiterState } from "../service/limits/limiter-state.ts";
import { coveringReasons } from "../service/limits/probes.ts";
import { untilRoom } from "./until-room.ts";

export interface ServiceCallsParts {
  readonly services: Pick<ServiceAccounts, "client" | "limiters">;
  readonly now: () => number;
}

/** What sending asks of the service, over the clients of the accounts. */
export function createServiceCalls({ services, now }: ServiceCallsParts): ServiceCalls {
  async function outcomeOf<T>(
    account: string,
    { signal, starting, repeating }: CallSteps,
    operation: CallOperation,
    call: (client: ServiceClient, options: CallOptions) => Promise<T>,
  ): Promise<CallResult<T>> {
    const client = services.client(account);
    if (client === null) {
      const error = cannotAsk(account);
      return { type: "not-done", error, why: error.message };
    }
    try {
      return { type: "done", value: await call(client, { patience: signal, watch: { starting, repeating } }) };
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      if (error.outcome === "unknown") return { type: "unknown", reason: error.message };
      return { type: "not-done", error: answerTo(error, account, operation), why: error.message };
    }
  }

  function answerTo(error: ServiceError, account: string, operation: CallOperation): RelayError {
    const { failure, status, message } = error;
    const about = { account, kind: error.kind, ...(status === null ? {} : { status }) };
    switch (failure.kind) {
      case "rate-limited":
        return new RelayError("service_rate_limited", error.text ?? message, about, {
          retryAfterMs: untilRoom(services.limiters().get(account), "requests", now()),
        });
      case "quota": {
        const { until = failure.until, ...stop } = stopOf(services.limiters().get(account), operation);
        return new RelayError("service_quota_used_up", error.text ?? message, {
          ...about,
          ...stop,
          until: new Date(until).toISOString(),
          ...(failure.cause === null ? {} : { cause: failure.cause }),
        });
      }
      case "unauthenticated":
      case "blocked":
        return new RelayError("service_key_refused", error.text ?? message, about, {
          retryAfterMs: failure.kind === "blocked" ? 60_000 : null,
        });
      case "caps-unknown":
        return new RelayError("store_unavailable", "what the account's other processes send cannot be known now; nothing was sent", about, {
          retryAfterMs: 1_000,
        });
      case "network":
        if (failure.code === "closed")
          return new RelayError("shutting_down", "the relay is stopping; nothing was sent", about, { retryAfterMs: 5_000 });
        return new RelayError("service_unreachable", message, { ...about, reason: failure.code });
      case "timeout":
        return new RelayError("service_unreachable", message, about);
      case "validation":
        return new RelayError("service_refused", error.text ?? message, { ...about, problems: failure.problems });
      case "plan":
        return new RelayError("service_refused", error.text ?? message, {
          ...about,
          ...(failure.cause === null ? {} : { cause: failure.cause }),
        });
      default:
        return new RelayError("service_refused", error.text ?? message, about);
    }
  }

  return {
    sendMessage: (account, body, steps) =>
      outcomeOf(account, steps, "messages", (client, options) => client.sendMessage({ ...body }, options)),
    startRun: (account, automation, body, steps) =>
      outcomeOf(account, steps, "runs", (client, options) => client.startRun(automation, { ...body }, options)),
  };
}

/** The stop that covers an operation: until when it refuses calls, and what the service calls its quota. */
function stopOf(
  state: LimiterState | undefined,
  operation: CallOperation,
): { readonly stop?: QuotaReason; readonly resource?: string; readonly until?: number } {
  const stop = coveringReasons(operation).find((reason) => state?.stops[reason] != null);
  const until = stop === undefined ? null : state?.stops[stop];
  if (state === undefined || stop === undefined || until == null) return {};
  const resource = state.resources[stop];
  return { stop, until, ...(resource === undefined ? {} : { resource }) };
}

function cannotAsk(account: string): RelayError {
  return new RelayError("conflict", `the account "${account}" cannot send: the settings give it no baseUrl or no apiKey`, { account });
}
