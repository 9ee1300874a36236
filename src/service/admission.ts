/** Per-minute caps: `requests` is every call, `messages` is `POST /messages`, which counts against both. */
export type CallCap = "requests" | "messages";

export const callPriorities = ["send", "interactive", "poll"] as const;
export type CallPriority = (typeof callPriorities)[number];

export const callOperations = ["messages", "runs", "contacts", "reads"] as const;
export type CallOperation = (typeof callOperations)[number];

export interface CallRequest {
  readonly cap: CallCap;
  readonly operation: CallOperation;
  readonly priority: CallPriority;
  readonly signal?: AbortSignal;
}

export type CallOutcome =
  | { readonly type: "answered" }
  /** 429 of a per-minute cap. `cap`: null if the answer does not name it. */
  | { readonly type: "rate-limited"; readonly cap: CallCap | null; readonly retryAfterMs: number | null; readonly limit: number | null }
  /** `serviceTime`: unix ms of the answer's `Date`. */
  | { readonly type: "quota-used-up"; readonly resource: string | null; readonly serviceTime: number | null }
  | { readonly type: "unauthenticated" }
  | { readonly type: "blocked" }
  /** The service counted nothing. */
  | { readonly type: "not-sent" }
  /** The service may have counted the call. */
  | { readonly type: "unknown" };

export interface Permit {
  /** Once, when the call has ended. */
  settle(outcome: CallOutcome): void;
}

/** Calls in flight at once. Never more than connections: undici's queue knows neither deadlines nor priorities. */
export const defaultConcurrency = 8;

export interface Admission {
  /**
   * Waits until the call fits under the caps. Rejects with the signal's reason, or at once with a `ServiceError` (`local:
   * true`) while calling would be useless or harmful.
   */
  enter(request: CallRequest): Promise<Permit>;
}
