import { createHash, timingSafeEqual } from "node:crypto";
import { RelayError } from "../event/errors.ts";
import type { Secret } from "../event/secret.ts";

export interface Token {
  readonly name: string;
  readonly token: Secret;
  readonly scopes: readonly string[];
}

/** Gives the name of the token in an `Authorization` header; throws `unauthorized` or `forbidden`. */
export type Authorize = (header: string | undefined, scope: string) => string;

export function createAuthorize(tokens: readonly Token[]): Authorize {
  // Digests of equal length, so that the comparison tells nothing about a token's length either.
  const known = tokens.map(({ name, token, scopes }) => ({ name, scopes, digest: digest(token.reveal()) }));
  return (header, scope) => {
    const given = /^Bearer ([\x21-\x7e]+)$/i.exec(header ?? "")?.[1];
    if (given === undefined) throw new RelayError("unauthorized", "send a token: Authorization: Bearer …");
    const sum = digest(given);
    let found: (typeof known)[number] | null = null;
    for (const candidate of known) if (timingSafeEqual(candidate.digest, sum)) found = candidate;
    if (found === null) throw new RelayError("unauthorized", "unknown token");
    if (!found.scopes.includes(scope)) throw new RelayError("forbidden", `the token "${found.name}" lacks the scope ${scope}`);
    return found.name;
  };
}

function digest(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
