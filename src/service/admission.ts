/**
 * Which per-minute cap a call counts against (messaging-service-api.md, "Per-minute caps"): `requests` is
 * every call, `messages` is `POST /messages`, which counts against both.
 */
export type CallCap = "requests" | "messages";

/** Who goes first when the caps leave no room for all: a send, then what somebody waits for, then polling. */
export const callPriorities = ["send", "ask", "poll"] as const;
export type CallPriority = (typeof callPriorities)[number];

/** What a call does, as far as monthly quotas tell calls apart. */
export const callOperations = ["messages", "runs", "contacts", "reads"] as const;
export type CallOperation = (typeof callOperations)[number];

export interface CallRequest {
  readonly cap: CallCap;
  readonly operation: CallOperation;
  readonly priority: CallPriority;
  /** Gives up waiting; the promise then rejects with the signal's reason. */
  readonly signal?: AbortSignal;
}

/** What came of a call that was let through, as far as the limits are concerned. */
export type CallOutcome =
  | { readonly type: "answered" }
  /** 429 of a per-minute cap; `cap` is null when the answer does not tell which. `retryAfterMs` as the header says, null without one. */
  | { readonly type: "rate-limited"; readonly cap: CallCap | null; readonly retryAfterMs: number | null; readonly limit: number | null }
  /**
   * 429 of a monthly quota: useless until renewal or a change of plan. `resource`: which one, where the answer names it.
   * `serviceTime`: unix ms of the answer's `Date`, null without one.
   */
  | { readonly type: "quota-used-up"; readonly resource: string | null; readonly serviceTime: number | null }
  /** 401: the key is missing, misspelled or revoked. */
  | { readonly type: "unauthenticated" }
  /** 429 with neither: the address is blocked for a minute because of bad keys. */
  | { readonly type: "blocked" }
  /** It certainly never left (connection refused, no such name, given up before it was sent): the service counted nothing. */
  | { readonly type: "not-sent" }
  /** No answer, or none that can be read: the service may have counted it. */
  | { readonly type: "unknown" };

/** The right to make one call. */
export interface Permit {
  /** Must be called exactly once, when the call has ended. */
  settle(outcome: CallOutcome): void;
}

/**
 * How many calls are under way at once, unless said otherwise: connections of a client, and calls that a limiter lets
 * go. Were more let go than there are connections, those behind would spend their deadline and their place in the
 * order of priority waiting in a queue that knows neither.
 */
export const usuallyAtOnce = 8;

/** What the client asks before each call. */
export interface Admission {
  /**
   * Waits until the call fits under the caps. Rejects at once with a `ServiceError` of kind `quota`,
   * `unauthenticated` or `blocked` (and `local: true`) while calling would be useless or harmful.
   */
  enter(request: CallRequest): Promise<Permit>;
}
