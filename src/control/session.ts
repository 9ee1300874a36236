import { createHmac, timingSafeEqual } from "node:crypto";
import { parseCookie, stringifySetCookie } from "cookie";
import type { FastifyReply, FastifyRequest } from "fastify";
import { RelayError } from "../model/errors.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import {
  type BadTokenHook,
  type KnownToken,
  refuseToken,
  type Session,
  type Tokens,
} from "./auth.ts";
import type { Handlers } from "./endpoint.ts";

/*
 * Sessions of the console. A session is a cookie that the relay does not store: the token's id, the
 * expiry and a nonce, signed with a key that derives from the token. So a session holds on every
 * process with the same settings, survives a restart, and ends when its token changes. Only what
 * must not work again is stored: used codes and ended sessions.
 */

const sessionMs = 12 * 3_600_000;
const codeMs = 60_000;

/**
 * A page of another site cannot send this header, so it shows that the console made the request.
 */
const ownHeader = "x-wamid-relay";
const ownValue = "console";

export interface Claims {
  /**
   * True for the first call with a key, on any process; false for the others, at least until
   * `until`. Times are unix ms.
   */
  claimOnce(key: string, until: number): Promise<boolean>;
  isClaimed(key: string): MaybePromise<boolean>;
}

interface SessionsParts {
  readonly tokens: () => Tokens;
  readonly claims: Claims;
  readonly now: () => number;
  /** Text of 22 characters that cannot be guessed. */
  readonly nonce: () => string;
}

export type Sessions = ReturnType<typeof createSessions>;

type Purpose = "s" | "c";

const signedForm = /^([sc])\.([\w-]{12})\.(\d{13,14})\.([\w-]{22})\.([\w-]{43})$/;

export function createSessions({ tokens, claims, now, nonce }: SessionsParts) {
  function signed(
    purpose: Purpose,
    { id, key }: KnownToken,
    forMs: number,
  ): { readonly value: string; readonly expiresAt: number } {
    const expiresAt = now() + forMs;
    const text = `${purpose}.${id}.${expiresAt}.${nonce()}`;
    return { value: `${text}.${mac(key, text)}`, expiresAt };
  }

  /** Null: malformed, expired, or signed with the key of no current token. */
  function verify(purpose: Purpose, signed: string): Session | null {
    const parts = signedForm.exec(signed);
    if (parts === null || parts[1] !== purpose) return null;
    const [, , tokenId = "", expiry, id = "", given = ""] = parts;
    const token = tokens().byId(tokenId);
    if (token === null) return null;
    const expected = mac(token.key, signed.slice(0, signed.lastIndexOf(".")));
    if (!timingSafeEqual(Buffer.from(given), Buffer.from(expected))) return null;
    const expiresAt = Number(expiry);
    return expiresAt <= now() ? null : { token, id, expiresAt };
  }

  async function find(value: string): Promise<Session | null> {
    const session = verify("s", value);
    return session === null || (await claims.isClaimed(`session:${session.id}`)) ? null : session;
  }

  return {
    start: (token: KnownToken) => signed("s", token, sessionMs),
    find,
    /**
     * That of a request's cookie; null without cookie. Throws `unauthorized` for one that ended,
     * `forbidden` for a foreign request.
     */
    async of(request: FastifyRequest): Promise<Session | null> {
      const value = cookieOf(request);
      if (value === null) return null;
      refuseForeignRequest(request);
      const session = await find(value);
      if (session === null)
        throw new RelayError("unauthorized", "the session has ended; sign in again");
      return session;
    },
    async end({ id, expiresAt }: Session): Promise<void> {
      await claims.claimOnce(`session:${id}`, expiresAt);
    },
    createCode: (token: KnownToken) => signed("c", token, codeMs),
    async useCode(code: string): Promise<KnownToken | null> {
      const found = verify("c", code);
      if (found === null) return null;
      const isFirst = await claims.claimOnce(`code:${found.id}`, found.expiresAt);
      return isFirst ? found.token : null;
    },
  };
}

function mac(key: Buffer, text: string): string {
  return createHmac("sha256", key).update(text).digest("base64url");
}

/**
 * Browsers send a host's cookies to all of its ports: without the port, one relay would replace
 * another's cookie.
 */
function cookieName({ headers: { host = "" } }: FastifyRequest): string {
  const port = /:(\d+)$/.exec(host)?.[1];
  return port === undefined ? "wamid-relay" : `wamid-relay-${port}`;
}

function cookieOf(request: FastifyRequest): string | null {
  const { cookie } = request.headers;
  return cookie === undefined ? null : (parseCookie(cookie)[cookieName(request)] ?? null);
}

function setCookie(
  request: FastifyRequest,
  reply: FastifyReply,
  value: string,
  maxAge: number,
): void {
  // Browsers send the origin with each POST, so the relay need not know which proxies end TLS.
  const secure = request.headers.origin?.startsWith("https://") ?? false;
  const cookie = {
    name: cookieName(request),
    value,
    path: "/",
    httpOnly: true,
    sameSite: "strict",
    secure,
    maxAge,
  } as const;
  reply.header("set-cookie", stringifySetCookie(cookie));
}

function refuseForeignOrigin({ headers }: FastifyRequest): void {
  const { origin, host } = headers;
  // Only the browser sets this one. It also holds behind a proxy that changes the host.
  if (origin === undefined || headers["sec-fetch-site"] === "same-origin") return;
  if (!URL.canParse(origin) || new URL(origin).host !== host) {
    throw new RelayError(
      "forbidden",
      "the Origin header names another site; a proxy must pass on the Host header",
    );
  }
}

function refuseForeignRequest(request: FastifyRequest): void {
  if (request.headers[ownHeader] !== ownValue) {
    throw new RelayError(
      "forbidden",
      `a request with a session cookie needs the header ${ownHeader}: ${ownValue}`,
    );
  }
  refuseForeignOrigin(request);
}

interface SessionParts {
  readonly sessions: Sessions;
  readonly tokens: () => Tokens;
  readonly badToken: BadTokenHook;
}

function viewOf({ token: { name, scopes, accounts }, expiresAt }: Omit<Session, "id">) {
  return { name, scopes, accounts: accounts ?? null, expiresAt };
}

export function createSessionHandlers({ sessions, tokens, badToken }: SessionParts) {
  return {
    async startSession(by, { request, reply }) {
      refuseForeignOrigin(request);
      const token = "token" in by ? tokens().byValue(by.token) : await sessions.useCode(by.code);
      if (token === null) {
        const message =
          "token" in by
            ? "unknown token"
            : 'the code is wrong, used or expired; run "wamid-relay console" again';
        throw refuseToken(badToken, "unknown", message, request.raw);
      }
      const { value, expiresAt } = sessions.start(token);
      setCookie(request, reply, value, sessionMs / 1000);
      return viewOf({ token, expiresAt });
    },
    async getSession(_input, { request }) {
      const session = await sessions.of(request);
      // Not counted as a bad token: the console asks on each load whether it is signed in.
      if (session === null) throw new RelayError("unauthorized", "there is no session; sign in");
      return viewOf(session);
    },
    async endSession(_input, { request, reply }) {
      const value = cookieOf(request);
      // Nor is a cookie deleted: a page of another site, whose requests have none, could sign out.
      if (value === null) return { ended: false };
      refuseForeignRequest(request);
      const session = await sessions.find(value);
      if (session !== null) await sessions.end(session);
      setCookie(request, reply, "", 0);
      return { ended: session !== null };
    },
    createSessionCode(_input, { request: { caller } }) {
      if (caller === null || caller.session !== null)
        throw new RelayError("forbidden", "only a bearer token can create a code");
      const { value: code, expiresAt } = sessions.createCode(caller.token);
      return { code, expiresAt };
    },
  } satisfies Partial<Handlers>;
}
