/** Every error of the HTTP API: `{error, code, details?}`. A test compares this list with docs/errors.md. */
export const errorCodes = {
  bad_request: {
    status: 400,
    meaning: "The request is not valid HTTP, or its query or body is invalid; `details` then lists the faults.",
  },
  unexpected_body: { status: 400, meaning: "The endpoint takes no body, and the request has one. Nothing was done." },
  bad_signature: { status: 401, meaning: "The signature is missing, malformed or stale, or matches none of the source's secrets." },
  unauthorized: { status: 401, meaning: "The bearer token is missing or unknown, or the session has ended." },
  forbidden: {
    status: 403,
    meaning:
      "The token does not have the scope that is needed, or the request comes from another site: a session cookie without the header `x-wamid-relay: console`, or a foreign `Origin`.",
  },
  not_found: { status: 404, meaning: "No such path, source, route, account, event, delivery or message." },
  method_not_allowed: { status: 405, meaning: "The path exists, but not for this method; the `Allow` header lists its methods." },
  request_timeout: { status: 408, meaning: "The request was not complete within `server.requestTimeout`; the connection is closed." },
  conflict: { status: 409, meaning: "The request conflicts with the current state, which `details` describes." },
  idempotency_conflict: {
    status: 409,
    meaning: "The idempotency key, or the reference of a run, was used for another request; `details` names both.",
  },
  outcome_unknown: {
    status: 409,
    meaning:
      "The call to the service may have succeeded. `details` lists what to check. The relay resends only with `?resend=` and the number in `details`.",
  },
  too_large: { status: 413, meaning: "The body is larger than `server.bodyLimit`; under `/v1`, than 8 MiB." },
  expectation_failed: { status: 417, meaning: "The `Expect` header is not `100-continue`; the connection is closed." },
  settings_refused: {
    status: 422,
    meaning: "The settings file has faults, which `details.faults` lists. The relay keeps the settings that it has.",
  },
  service_refused: {
    status: 422,
    meaning: "The messaging service refused it. `error` is the service's text, `details` has its status and reasons. Nothing was sent.",
  },
  too_many_bad_signatures: {
    status: 429,
    meaning: "This address keeps sending bad signatures. Events with a valid signature are still accepted.",
  },
  too_many_bad_tokens: {
    status: 429,
    meaning: "This address keeps sending requests with a bad token or none. Requests with a good token still work.",
  },
  service_rate_limited: {
    status: 429,
    meaning: "The account's per-minute caps leave no room in time. Nothing was sent; retry after `Retry-After`.",
  },
  service_quota_used_up: {
    status: 429,
    meaning:
      "The account's monthly quota is used up until `details.until`. Nothing was sent. There is no `Retry-After`, because a plan change may end it earlier.",
  },
  headers_too_large: { status: 431, meaning: "Request line and headers are larger than 16 KiB; the connection is closed." },
  internal: { status: 500, meaning: "A fault of the relay; see its log." },
  downstream_failed: { status: 502, meaning: "In proxy mode: the destination did not answer, or answered with more than 1 MiB." },
  service_unreachable: { status: 502, meaning: "The messaging service could not be reached. Nothing was sent." },
  service_key_refused: {
    status: 502,
    meaning: "The messaging service refuses the account's API key, or this address because of bad keys. Nothing was sent.",
  },
  overloaded: {
    status: 503,
    meaning:
      "Too many requests (`server.maxInFlight`), bytes of bodies, or requests on one connection are in flight; retry after `Retry-After`.",
  },
  too_many_listeners: {
    status: 503,
    meaning: "The relay has as many listeners (`GET /v1/listen`) as it accepts; retry after `Retry-After`.",
  },
  store_unavailable: {
    status: 503,
    meaning:
      "The store cannot be written or read (disk full; file locked, damaged, truncated or deleted; …). Nothing was done; retry after `Retry-After`.",
  },
  shutting_down: { status: 503, meaning: "The relay is stopping; retry after `Retry-After`." },
  downstream_timeout: { status: 504, meaning: "In proxy mode: the destination did not answer in time." },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type ErrorCode = keyof typeof errorCodes;

/** An error that becomes the answer. `message` is for people, `code` for programs. */
export class RelayError extends Error {
  override readonly name = "RelayError";
  readonly code: ErrorCode;
  readonly details: unknown;
  /** For the header `Retry-After`; null: without. */
  readonly retryAfterMs: number | null;

  constructor(code: ErrorCode, message: string, details?: unknown, options: ErrorOptions & { readonly retryAfterMs?: number | null } = {}) {
    super(message, options);
    this.code = code;
    this.details = details;
    this.retryAfterMs = options.retryAfterMs ?? null;
  }

  get status(): number {
    return errorCodes[this.code].status;
  }

  toBody(): { error: string; code: ErrorCode; details?: unknown } {
    const { message: error, code, details } = this;
    return details === undefined ? { error, code } : { error, code, details };
  }
}
