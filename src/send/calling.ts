import { type ErrorCode, RelayError } from "../model/errors.ts";
import type { ServiceAccounts } from "../service/accounts.ts";
import type { CallOptions, ServiceClient } from "../service/client.ts";
import type { CallCap, CallOperation } from "../service/endpoints.ts";
import { ServiceError } from "../service/errors.ts";
import type { LimiterState } from "../service/limits/limiter.ts";
import { coveringReasons } from "../service/limits/stops.ts";
import type { Order, SendDone } from "./once.ts";

/** Calls the service for a send, and answers what it did not do. */
export function createCalling(
  services: Pick<ServiceAccounts, "client" | "limiterOf" | "stops">,
  now: () => number,
) {
  function answerTo(error: ServiceError, account: string, operation: CallOperation): RelayError {
    const { failure, status, message } = error;
    const about = { account, kind: error.kind, ...(status === null ? {} : { status }) };
    const answer = (
      code: ErrorCode,
      more: object = {},
      retryAfterMs: number | null = null,
      text = error.text ?? message,
    ) => new RelayError(code, text, { ...about, ...more }, { retryAfterMs });
    const cause = "cause" in failure && failure.cause !== null ? { cause: failure.cause } : {};
    switch (failure.kind) {
      case "rate-limited":
        return answer(
          "service_rate_limited",
          {},
          untilRoom(services.limiterOf(account), "requests", now()),
        );
      case "quota": {
        const covering = coveringReasons(operation);
        const found = services
          .stops()
          .find(
            (each) => each.account === account && covering.some((reason) => reason === each.reason),
          );
        const { reason: stop, resource, until = failure.until } = found ?? {};
        return answer("service_quota_used_up", {
          ...(stop && { stop }),
          ...(resource && { resource }),
          until: new Date(until).toISOString(),
          ...cause,
        });
      }
      case "unauthenticated":
        return answer("service_key_refused");
      case "blocked":
        return answer("service_key_refused", {}, 60_000);
      case "caps-unknown":
        return answer(
          "store_unavailable",
          {},
          1_000,
          "what the account's other processes send cannot be known now; nothing was sent",
        );
      case "network":
        return error.isClosed
          ? answer("shutting_down", {}, 5_000, "the relay is stopping; nothing was sent")
          : answer("service_unreachable", { reason: failure.code }, null, message);
      case "timeout":
        return answer("service_unreachable", {}, null, message);
      case "validation": {
        const why = failure.problems.map((problem) => `${problem.path}: ${problem.message}`);
        return answer(
          "service_refused",
          { problems: failure.problems },
          null,
          [error.text ?? message, ...why].join("; "),
        );
      }
      default:
        return answer("service_refused", cause);
    }
  }

  return (
    account: string,
    operation: CallOperation,
    call: (
      client: ServiceClient,
      options: CallOptions,
    ) => Promise<Pick<SendDone, "answer" | "sent">>,
  ): Order["call"] =>
    async ({ signal, starting, repeating }) => {
      for (;;) {
        const client = services.client(account);
        if (client === null) {
          const why = "the settings give it no baseUrl or no apiKey";
          const error = new RelayError("conflict", `the account "${account}" cannot send: ${why}`, {
            account,
          });
          return { type: "not-done", error, why: error.message };
        }
        try {
          const done = await call(client, { signal, watch: { starting, repeating } });
          return { type: "done", value: { end: "done", at: now(), ...done } };
        } catch (error) {
          if (!(error instanceof ServiceError)) throw error;
          if (error.outcome === "unknown") return { type: "unknown", reason: error.message };
          const next = services.client(account);
          // A reload with another key or address closed the client while the call waited for room.
          if (error.isClosed && next !== null && next !== client) continue;
          const why = error.message;
          return { type: "not-done", error: answerTo(error, account, operation), why };
        }
      }
    };
}

/** One-minute windows (messaging-service-api.md, "Per-minute caps"). */
const windowMs = 60_000;

/**
 * About how many ms until one more send may find room, for `Retry-After`: after the waiting ones at
 * the pace of the cap, and not while it is held. At least a second, and at most a window after a
 * hold.
 */
export function untilRoom(state: LimiterState | undefined, cap: CallCap, now: number): number {
  if (state === undefined) return windowMs;
  const { caps } = state;
  const held = Math.max(caps.requests.heldUntil ?? 0, caps[cap].heldUntil ?? 0) - now;
  const { waiting, limit } = caps[cap];
  const turn = ((waiting.send + 1) * windowMs) / Math.max(limit, 1);
  return Math.max(held, 0) + Math.min(Math.max(turn, 1_000), windowMs);
}
