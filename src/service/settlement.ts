import type { CallOutcome } from "./admission.ts";
import type { Answer } from "./read-answer.ts";
import { httpDate } from "./renewal.ts";
import type { ServiceError } from "./service-error.ts";

/** A resource is shown to people and kept in shared state: a longer or stranger name counts as none. */
const resourceName = /^[\w.-]{1,40}$/;

/** What the admission is told of a call that failed; `answer` is null when there was none. */
export function settlementOf(error: ServiceError, answer: Answer | null): CallOutcome {
  const { failure } = error;
  switch (failure.kind) {
    case "rate-limited":
      return { type: "rate-limited", cap: failure.cap, retryAfterMs: failure.retryAfterMs, limit: failure.limit };
    case "quota":
      return {
        type: "quota-used-up",
        resource: resourceName.exec(failure.cause?.resource ?? "")?.[0] ?? null,
        serviceTime: httpDate(answer?.headers["date"]),
      };
    case "unauthenticated":
    case "blocked":
      return { type: failure.kind };
    case "network":
    case "timeout":
      return { type: error.outcome === "not-done" ? "not-sent" : "unknown" };
    case "malformed":
      return { type: "unknown" };
    default:
      return { type: "answered" };
  }
}
