/**
 * Every error the relay answers with over HTTP: `{error, code, details?}`. docs/errors.md lists the
 * same, and a test fails when the two differ.
 */
export const errorCodes = {
  bad_request: {
    status: 400,
    meaning: "The request is no valid HTTP, or its query or body is not what the endpoint takes; then `details` says where.",
  },
  bad_signature: { status: 401, meaning: "The signature is missing, malformed, stale, or made with none of the source's secrets." },
  unauthorized: { status: 401, meaning: "The bearer token is missing or unknown." },
  forbidden: { status: 403, meaning: "The token does not have the scope that the endpoint needs." },
  not_found: { status: 404, meaning: "No such path, source, event, delivery or message." },
  method_not_allowed: { status: 405, meaning: "The path exists, but not for this method; the `Allow` header lists its methods." },
  request_timeout: { status: 408, meaning: "The request did not arrive whole within `server.requestTimeout`; the connection is closed." },
  conflict: { status: 409, meaning: "What was asked for cannot be done as things stand; `details` says how they stand." },
  idempotency_conflict: {
    status: 409,
    meaning: "The idempotency key, or the reference of a run, stands for something else that was sent before; `details` names both.",
  },
  outcome_unknown: {
    status: 409,
    meaning:
      "The call to the service had no known end: it may have been sent. `details` says what to check; it is sent again only by `?resend=` with the number given there.",
  },
  too_large: { status: 413, meaning: "The body is larger than `server.bodyLimit`; under `/v1`, than 8 MiB." },
  expectation_failed: { status: 417, meaning: "The `Expect` header is not `100-continue`; the connection is closed." },
  service_refused: {
    status: 422,
    meaning: "The messaging service did not take it; `error` is its own text, `details` has its status and reasons. Nothing was sent.",
  },
  too_many_bad_signatures: {
    status: 429,
    meaning: "This address keeps sending bad signatures; events that prove themselves are still taken.",
  },
  too_many_bad_tokens: {
    status: 429,
    meaning: "This address keeps sending bad tokens, or none; requests with a good token still work.",
  },
  service_rate_limited: {
    status: 429,
    meaning: "The account's per-minute caps leave no room in time. Nothing was sent; send again after `Retry-After`.",
  },
  service_quota_used_up: {
    status: 429,
    meaning:
      "The account's monthly quota is used up until `details.until`. Nothing was sent. There is no `Retry-After`: a plan change ends it earlier.",
  },
  headers_too_large: { status: 431, meaning: "Request line and headers are larger than 16 KiB; the connection is closed." },
  internal: { status: 500, meaning: "A fault of the relay; its log says more." },
  downstream_failed: { status: 502, meaning: "In proxy mode: the destination gave no answer, or one of more than 1 MiB." },
  service_unreachable: { status: 502, meaning: "The messaging service could not be reached. Nothing was sent." },
  service_key_refused: {
    status: 502,
    meaning: "The messaging service refuses the account's API key, or this address because of bad keys. Nothing was sent.",
  },
  overloaded: {
    status: 503,
    meaning:
      "More requests are in hand than `server.maxInFlight`, or more bytes of bodies than memory is set aside for, or one connection has too many without an answer; send again after `Retry-After`.",
  },
  too_many_listeners: {
    status: 503,
    meaning: "As many listen (`GET /v1/listen`) as the relay takes; ask again after `Retry-After`.",
  },
  store_unavailable: {
    status: 503,
    meaning:
      "It cannot be stored or read now (disk full, file locked, damaged, truncated or deleted …), and nothing was done; send again after `Retry-After`.",
  },
  shutting_down: { status: 503, meaning: "The relay is stopping; send again after `Retry-After`." },
  downstream_timeout: { status: 504, meaning: "In proxy mode: the destination did not answer in time." },
} as const satisfies Record<string, { status: number; meaning: string }>;

export type ErrorCode = keyof typeof errorCodes;

/** An error that is answered as it is. `message` is for people, `code` for programs. */
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
    return this.details === undefined
      ? { error: this.message, code: this.code }
      : { error: this.message, code: this.code, details: this.details };
  }
}
