interface ErrorEntry {
  readonly status: number;
  readonly meaning: string;
  readonly remedy: string;
}

/**
 * Every error of the HTTP API: `{error, code, details?}`. docs/reference/errors.md is generated
 * from it.
 */
export const errorCodes = {
  bad_request: {
    status: 400,
    meaning: "The request is not valid HTTP, or its query or body is invalid.",
    remedy: "Correct what `details` lists, as `{path, message}`.",
  },
  unexpected_body: {
    status: 400,
    meaning: "The endpoint takes no body, and the request has one. Nothing was done.",
    remedy: "Send the request without a body.",
  },
  bad_signature: {
    status: 401,
    meaning:
      "The signature is missing, malformed or stale, or matches none of the source's secrets.",
    remedy:
      "Compare the secrets on both sides. `wamid-relay verify` finds out how a request was signed.",
  },
  unauthorized: {
    status: 401,
    meaning: "The bearer token is missing or unknown, or the session has ended.",
    remedy: "Send a token of `control.tokens`, or sign in again.",
  },
  forbidden: {
    status: 403,
    meaning:
      "The token lacks the scope. Or a session cookie came without the header `x-wamid-relay: console`, or with a foreign `Origin`.",
    remedy:
      "Use a token with the scope that the endpoint names. Behind a proxy, pass on the `Host` header.",
  },
  not_found: {
    status: 404,
    meaning: "No such path, source, route, account, event, delivery or message.",
    remedy: "Check the name. Sources and routes are those of the settings.",
  },
  method_not_allowed: {
    status: 405,
    meaning: "The path exists, but not for this method.",
    remedy: "Use a method that the `Allow` header lists.",
  },
  request_timeout: {
    status: 408,
    meaning:
      "The request was not complete within `server.requestTimeout`. The relay closes the connection.",
    remedy: "Send the request again, faster.",
  },
  conflict: {
    status: 409,
    meaning: "The request conflicts with the current state.",
    remedy: "`details` describes the state. Correct the request, or retry after `Retry-After`.",
  },
  idempotency_conflict: {
    status: 409,
    meaning: "The idempotency key, or the reference of a run, was used for another request.",
    remedy: "Use another key. `details` names both requests.",
  },
  outcome_unknown: {
    status: 409,
    meaning: "The call to the service may have succeeded, and the relay cannot find out.",
    remedy:
      "Check what `details` lists. To send again, repeat the request with `?resend=` and the number in `details`.",
  },
  too_large: {
    status: 413,
    meaning: "The body is larger than `server.bodyLimit` or, under `/v1`, than 8 MiB.",
    remedy: "Raise `server.bodyLimit`, or send less at once.",
  },
  unsupported_media_type: {
    status: 415,
    meaning:
      "The body is not JSON in UTF-8: another content type or charset, or a `content-encoding`.",
    remedy: "Send `content-type: application/json`, in UTF-8 and uncompressed.",
  },
  expectation_failed: {
    status: 417,
    meaning: "The `Expect` header is not `100-continue`. The relay closes the connection.",
    remedy: "Send the request without the header.",
  },
  settings_refused: {
    status: 422,
    meaning: "The settings file has faults. The relay keeps the settings that it has.",
    remedy: "Correct what `details.faults` lists, then reload again.",
  },
  service_refused: {
    status: 422,
    meaning:
      "The messaging service refused the call. `error` is the service's text. Nothing was sent.",
    remedy: "Correct what `details` names: the service's status and its reasons.",
  },
  too_many_bad_signatures: {
    status: 429,
    meaning:
      "This address keeps sending bad signatures. Events with a valid signature are still accepted.",
    remedy: "Correct the secret, and retry after `Retry-After`.",
  },
  too_many_bad_tokens: {
    status: 429,
    meaning:
      "This address keeps sending requests with a bad token or none. Requests with a valid token still work.",
    remedy: "Correct the token, and retry after `Retry-After`.",
  },
  too_many_guesses: {
    status: 429,
    meaning:
      "This token, which lacks the scope `pii`, has searched for many phone numbers that no message has.",
    remedy: "Retry after `Retry-After`, or use a token with the scope `pii`.",
  },
  service_rate_limited: {
    status: 429,
    meaning: "The account's per-minute caps leave no room in time. Nothing was sent.",
    remedy: "Retry after `Retry-After`.",
  },
  service_quota_used_up: {
    status: 429,
    meaning: "The account's monthly quota is used up until `details.until`. Nothing was sent.",
    remedy:
      "Wait, or change the plan and run `wamid-relay resume --account`. There is no `Retry-After`.",
  },
  headers_too_large: {
    status: 431,
    meaning: "Request line and headers are larger than 16 KiB. The relay closes the connection.",
    remedy: "Send smaller headers.",
  },
  internal: {
    status: 500,
    meaning: "The relay has a fault.",
    remedy: "Read its log. The sender can retry.",
  },
  downstream_failed: {
    status: 502,
    meaning: "In proxy mode: the destination did not answer, or answered with more than 1 MiB.",
    remedy: "Check the destination.",
  },
  service_unreachable: {
    status: 502,
    meaning: "The messaging service could not be reached. Nothing was sent.",
    remedy: "Check `baseUrl` and the network, then retry.",
  },
  service_key_refused: {
    status: 502,
    meaning:
      "The messaging service refuses the account's API key, or this address because of bad keys. Nothing was sent.",
    remedy: "Correct `apiKey`, and reload. `wamid-relay doctor` checks the key.",
  },
  overloaded: {
    status: 503,
    meaning:
      "Too much is in flight: requests (`server.maxInFlight`), bytes of bodies, or requests on one connection.",
    remedy: "Retry after `Retry-After`.",
  },
  too_many_listeners: {
    status: 503,
    meaning: "The relay has as many listeners as it accepts.",
    remedy: "Close other listeners, or retry after `Retry-After`.",
  },
  store_unavailable: {
    status: 503,
    meaning:
      "The store cannot be written or read: disk full, file locked, damaged or deleted, or its server unavailable. Nothing was done.",
    remedy: "Repair the store; `GET /readyz` has the reason. Retry after `Retry-After`.",
  },
  shutting_down: {
    status: 503,
    meaning: "The relay is stopping.",
    remedy: "Retry after `Retry-After`.",
  },
  downstream_timeout: {
    status: 504,
    meaning: "In proxy mode: the destination did not answer in time.",
    remedy: "Make the destination faster. The longest `timeout` is 9500ms.",
  },
} as const satisfies Record<string, ErrorEntry>;

export type ErrorCode = keyof typeof errorCodes;

/**
 * `WWW-Authenticate`, which RFC 9110 requires with 401. A browser shows no dialog for these
 * schemes.
 */
export function challengeOf(code: ErrorCode): string | null {
  if (errorCodes[code].status !== 401) return null;
  return `${code === "bad_signature" ? "Signature" : "Bearer"} realm="wamid-relay"`;
}

/** A refusal that names each fault by the path of its field; `whole` is what has the path "". */
export function badRequest(
  details: readonly { readonly path: string; readonly message: string }[],
  whole = "the body",
): RelayError {
  const texts = details.map(({ path, message }) =>
    path === "" ? `${whole} ${message}` : `${path}: ${message}`,
  );
  return new RelayError("bad_request", texts.join("; "), details);
}

export class RelayError extends Error {
  override readonly name = "RelayError";
  readonly code: ErrorCode;
  readonly details: unknown;
  /** For the header `Retry-After`; null: without. */
  readonly retryAfterMs: number | null;

  constructor(
    code: ErrorCode,
    message: string,
    details?: unknown,
    options: ErrorOptions & { readonly retryAfterMs?: number | null } = {},
  ) {
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
