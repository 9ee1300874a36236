import { createHash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { RelayError } from "../model/errors.ts";
import type { Secret } from "../model/secret.ts";
import type { Allow } from "./endpoint.ts";

interface Token {
  readonly name: string;
  readonly token: Secret;
  readonly scopes: readonly string[];
}

/** `missing`: the header holds no bearer token. */
type BadTokenReason = "missing" | "unknown";

class BadToken extends RelayError {
  readonly reason: BadTokenReason;

  constructor(reason: BadTokenReason, message: string) {
    super("unauthorized", message);
    this.reason = reason;
  }
}

/** Counts a request with a bad token. Returns how long its address must wait, in ms, after too many; else null. */
export type BadTokenHook = (reason: BadTokenReason, request: IncomingMessage) => number | null;

/** Returns the name of the token in an `Authorization` header; throws a {@link BadToken}, or `forbidden`. */
export type Authorize = (header: string | undefined, scope: string) => string;

export function createAuthorize(tokens: readonly Token[]): Authorize {
  // Digests have equal lengths, so the comparison does not leak a token's length.
  const known = tokens.map(({ name, token, scopes }) => ({ name, scopes, digest: digest(token.reveal()) }));
  return (header, scope) => {
    const given = /^Bearer ([\x21-\x7e]+)$/i.exec(header ?? "")?.[1];
    if (given === undefined) throw new BadToken("missing", "send a token: Authorization: Bearer …");
    const sum = digest(given);
    let found: (typeof known)[number] | null = null;
    for (const candidate of known) if (timingSafeEqual(candidate.digest, sum)) found = candidate;
    if (found === null) throw new BadToken("unknown", "unknown token");
    if (!found.scopes.includes(scope)) throw new RelayError("forbidden", `the token "${found.name}" lacks the scope ${scope}`);
    return found.name;
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}

/** The check of a request's token for a scope. `authorize` is called per request, because the settings may change. */
export function createAllow(authorize: () => Authorize, badToken: BadTokenHook): Allow {
  return (scope) => async (request) => {
    try {
      authorize()(request.headers.authorization, scope);
    } catch (error) {
      const retryAfterMs = error instanceof BadToken ? badToken(error.reason, request.raw) : null;
      if (retryAfterMs === null) throw error;
      throw new RelayError("too_many_bad_tokens", "too many bad tokens from this address", undefined, { retryAfterMs });
    }
  };
}
