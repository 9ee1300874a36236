import { createHmac, hash, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import type { FastifyRequest } from "fastify";
import { RelayError } from "../model/errors.ts";
import type { Secret } from "../model/secret.ts";
import type { Guess } from "./guesses.ts";

interface Token {
  readonly name: string;
  readonly token: Secret;
  readonly scopes: readonly string[];
  readonly accounts?: readonly string[] | undefined;
}

export interface KnownToken {
  readonly name: string;
  readonly scopes: readonly string[];
  /** Undefined: all. */
  readonly accounts: readonly string[] | undefined;
  /** Names the token in a session, without disclosing it. Another token has another one. */
  readonly id: string;
  /** Signs the sessions of this token, so that they end with it. */
  readonly key: Buffer;
}

export interface Tokens {
  byValue(text: string): KnownToken | null;
  byId(id: string): KnownToken | null;
}

export function createTokens(tokens: readonly Token[]): Tokens {
  // Digests have equal lengths, so the comparison does not leak a token's length.
  const known = tokens.map(({ name, token, scopes, accounts }) => {
    const derive = (purpose: string) =>
      createHmac("sha256", token.reveal()).update(`wamid-relay ${purpose}`).digest();
    const id = derive("token id").toString("base64url").slice(0, 12);
    return {
      digest: digest(token.reveal()),
      token: { name, scopes, accounts, id, key: derive("sessions") },
    };
  });
  return {
    byValue(text) {
      const sum = digest(text);
      let found: KnownToken | null = null;
      for (const candidate of known)
        if (timingSafeEqual(candidate.digest, sum)) found = candidate.token;
      return found;
    },
    byId: (id) => known.find(({ token }) => token.id === id)?.token ?? null,
  };
}

const digest = (text: string): Buffer => hash("sha256", text, "buffer");

type BadTokenReason = "missing" | "unknown";

/**
 * Counts a request with a bad token. Returns how long its address must wait, in ms, after too many;
 * else null.
 */
export type BadTokenHook = (reason: BadTokenReason, request: IncomingMessage) => number | null;

export type RevealedHook = (
  token: string,
  endpoint: string,
  parameters: Readonly<Record<string, unknown>>,
) => void;

export interface Session {
  readonly token: KnownToken;
  readonly id: string;
  /** Unix ms. */
  readonly expiresAt: number;
}

export interface Caller {
  readonly token: KnownToken;
  /** Null: a bearer token. */
  readonly session: Session | null;
  revealed(endpoint: string, parameters: Readonly<Record<string, unknown>>): void;
  guess(): ReturnType<Guess>;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Null where an endpoint needs no token. */
    caller: Caller | null;
  }
}

export type OnRequest = (request: FastifyRequest) => Promise<void>;
export type Allow = (scope: string | null) => OnRequest;

export interface AllowParts {
  readonly tokens: () => Tokens;
  readonly badToken: BadTokenHook;
  readonly revealed: RevealedHook;
  readonly guess: Guess;
  /**
   * The session of a request's cookie; null when it has none. Throws `unauthorized` or `forbidden`.
   */
  readonly sessionOf: (request: FastifyRequest) => Promise<Session | null>;
}

export function refuseToken(
  badToken: BadTokenHook,
  reason: BadTokenReason,
  message: string,
  request: IncomingMessage,
): RelayError {
  const retryAfterMs = badToken(reason, request);
  return retryAfterMs === null
    ? new RelayError("unauthorized", message)
    : new RelayError("too_many_bad_tokens", "too many bad tokens from this address", undefined, {
        retryAfterMs,
      });
}

export function createAllow({ tokens, badToken, revealed, guess, sessionOf }: AllowParts): Allow {
  return (scope) => async (request) => {
    const { token, session } = await callerOf(request);
    if (scope !== null && !token.scopes.includes(scope))
      throw new RelayError("forbidden", `the token "${token.name}" lacks the scope ${scope}`);
    request.caller = {
      token,
      session,
      revealed: (endpoint, parameters) => revealed(token.name, endpoint, parameters),
      guess: () => guess(token.name),
    };
  };

  async function callerOf(
    request: FastifyRequest,
  ): Promise<{ token: KnownToken; session: Session | null }> {
    const { authorization } = request.headers;
    if (authorization === undefined) {
      const session = await sessionOf(request);
      if (session !== null) return { token: session.token, session };
    }
    const given = /^Bearer ([\x21-\x7e]+)$/i.exec(authorization ?? "")?.[1];
    if (given === undefined)
      throw refuseToken(badToken, "missing", "send a token: Authorization: Bearer …", request.raw);
    const token = tokens().byValue(given);
    if (token === null) throw refuseToken(badToken, "unknown", "unknown token", request.raw);
    return { token, session: null };
  }
}
