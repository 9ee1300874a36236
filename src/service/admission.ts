/**
 * Which per-minute cap a call counts against (messaging-service-api.md, "Per-minute caps"): `requests` is
 * every call, `messages` is `POST /messages`, which counts against both.
 */
export type CallCap = "requests" | "messages";

/** In descending order, for when the caps leave no room for all: sends, then calls that a caller waits for, then polls. */
export const callPriorities = ["send", "interactive", "poll"] as const;
export type CallPriority = (typeof callPriorities)[number];

/** The kinds of calls that monthly quotas distinguish. */
export const callOperations = ["messages", "runs", "contacts", "reads"] as const;
export type CallOperation = (typeof callOperations)[number];

export interface CallRequest {
  readonly cap: CallCap;
  readonly operation: CallOperation;
  readonly priority: CallPriority;
  /** Ends the wait; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** The outcome of a dispatched call, as the limits see it. */
export type CallOutcome =
  | { readonly type: "answered" }
  /** 429 of a per-minute cap. `cap`: null if the answer does not name it. `retryAfterMs`: of the header, null without one. */
  | { readonly type: "rate-limited"; readonly cap: CallCap | null; readonly retryAfterMs: number | null; readonly limit: number | null }
  /**
   * 429 of a monthly quota: calls are useless until renewal or a change of plan. `resource`: null if the answer does not name it.
   * `serviceTime`: unix ms of the answer's `Date`, null without one.
   */
  | { readonly type: "quota-used-up"; readonly resource: string | null; readonly serviceTime: number | null }
  /** 401: the key is missing, misspelled or revoked. */
  | { readonly type: "unauthenticated" }
  /** 429 without either: the address is blocked for a minute because of bad keys. */
  | { readonly type: "blocked" }
  /** Certainly never sent (connection refused, unknown host, ended before it was sent): the service counted nothing. */
  | { readonly type: "not-sent" }
  /** No answer, or an unreadable one: the service may have counted the call. */
  | { readonly type: "unknown" };

/** The right to make one call. */
export interface Permit {
  /** Must be called exactly once, when the call has ended. */
  settle(outcome: CallOutcome): void;
}

/**
 * Default for calls in flight at once: a client's connections and a limiter's calls. With more calls than connections, the
 * surplus would wait in undici's queue, which knows neither their deadlines nor their priorities.
 */
export const defaultConcurrency = 8;

/** Grants the client a permit for each call. */
export interface Admission {
  /**
   * Waits until the call fits under the caps. Rejects at once with a `ServiceError` of kind `quota`,
   * `unauthenticated` or `blocked` (and `local: true`) while calling would be useless or harmful.
   */
  enter(request: CallRequest): Promise<Permit>;
}
