import { pause } from "../model/clock.ts";
import type { ErrorCode } from "../model/errors.ts";
import { systemClock } from "../model/system-clock.ts";

/** `no_answer`: no complete answer arrived. `bad_answer`: the answer is not from a relay, or from another version. */
export type RelayClientErrorCode = ErrorCode | "no_answer" | "bad_answer";

interface RelayClientErrorParts {
  readonly status: number;
  readonly code: RelayClientErrorCode;
  readonly details?: unknown;
  readonly line?: number;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
}

/** The relay refused the request or could not be reached. `message` is for people and contains no token. */
export class RelayClientError extends Error {
  override readonly name = "RelayClientError";
  /** The answer's status; 0 when there was no answer. */
  readonly status: number;
  /** A code of docs/reference/errors.md, or one of the client. */
  readonly code: RelayClientErrorCode;
  /** From the relay, such as `{stored, given}` by field in a conflict. */
  readonly details: unknown;
  /** In `trackAll`: number (from 1) of the first message that may not be registered; continue from there. */
  readonly line: number | null;
  /** The answer's `Retry-After`, in milliseconds. */
  readonly retryAfterMs: number | null;

  constructor(message: string, { status, code, details, line, retryAfterMs, cause }: RelayClientErrorParts) {
    super(message, cause === undefined ? {} : { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.line = line ?? null;
    this.retryAfterMs = retryAfterMs ?? null;
  }
}

export interface RelayClientOptions {
  /** The relay's URL, such as `https://relay.example`; it may have a path before `/v1`. */
  url: string | URL;
  /**
   * One of `control.tokens` in the relay's settings. Without a token, the browser's session cookie authorizes the requests:
   * only for pages that the relay itself serves.
   */
  token?: string | undefined;
  /** Longest wait for one answer, in milliseconds. Default: one minute. */
  timeoutMs?: number | undefined;
  /** Aborts requests in flight and all later ones. */
  signal?: AbortSignal | undefined;
  /** Replaces the global `fetch`, for proxies and tests. */
  fetch?: typeof globalThis.fetch | undefined;
}

/** Throws {@link RelayClientError} unless the answer is a 2xx. */
export interface Connection {
  json<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T>;
  /**
   * Repeats a request while another one with its key is in flight, at most for the longest wait for one answer. The relay then
   * returns the answer of the other one.
   */
  onceFree<T>(request: () => Promise<T>): Promise<T>;
  /** Posts JSON with extra headers; returns the answer with its headers. */
  post<T>(path: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<{ readonly body: T; readonly headers: Headers }>;
  /** Posts NDJSON; returns the lines of the answer. */
  lines<T>(path: string, lines: string): Promise<T[]>;
  /** Opens a stream of server-sent events. `timeoutMs` is the longest wait for its first byte; the stream itself has no end. */
  stream(path: string, headers: Readonly<Record<string, string>>, signal: AbortSignal): Promise<ReadableStream<Uint8Array>>;
}

/** Proves to the relay that a request with a cookie comes from its own page: another site cannot set it. */
const fromConsole = { "x-wamid-relay": "console" };

/** Throws TypeError for an invalid URL or token. */
export function connect({ url, token, timeoutMs = 60_000, signal, fetch = globalThis.fetch }: RelayClientOptions): Connection {
  const base = new URL(url);
  if (!/^https?:$/.test(base.protocol)) throw new TypeError("url must be an http or https URL");
  // Checked here because fetch would show the whole token in its message.
  if (token !== undefined && (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)))
    throw new TypeError("token must be text without spaces");
  const caller = token === undefined ? fromConsole : { authorization: `Bearer ${token}` };
  const root = `${base.origin}${base.pathname.replace(/\/+$/, "")}`;

  /** Resolves with the answer when its headers are complete. `over` ends it, at any time. */
  async function call(path: string, init: RequestInit, over: AbortSignal): Promise<Response> {
    const { headers, ...rest } = init;
    return fetch(`${root}${path}`, {
      ...rest,
      headers: { ...(headers as Readonly<Record<string, string>>), ...caller },
      // A redirect would send the token to another place.
      redirect: "error",
      credentials: token === undefined ? "same-origin" : "omit",
      signal: signal === undefined ? over : AbortSignal.any([over, signal]),
    });
  }

  function noAnswer(cause: unknown, status: number, isLate: boolean): RelayClientError {
    const message = `no answer from ${base.origin}${isLate ? ` within ${timeoutMs} ms` : ""}`;
    return new RelayClientError(message, { status, code: "no_answer", cause });
  }

  async function request(
    method: string,
    path: string,
    type: string | null,
    body: string | null,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ text: string; headers: Headers }> {
    const timeout = AbortSignal.timeout(timeoutMs);
    const headers = type === null ? more : { ...more, "content-type": type };
    let status = 0;
    let answer: Response;
    let text: string;
    try {
      answer = await call(path, { method, headers, ...(body === null ? {} : { body }) }, timeout);
      ({ status } = answer);
      text = await answer.text();
    } catch (cause) {
      throw noAnswer(cause, status, timeout.aborted);
    }
    if (!answer.ok) throw refusal(base.origin, answer, text);
    return { text, headers: answer.headers };
  }

  return {
    async json<T>(method: "GET" | "POST", path: string, body?: unknown) {
      const [type, sent] = body === undefined ? [null, null] : ["application/json", JSON.stringify(body)];
      const { text } = await request(method, path, type, sent);
      return parsed<T>(base.origin, text);
    },
    async onceFree<T>(request: () => Promise<T>): Promise<T> {
      const endsAt = performance.now() + timeoutMs;
      for (;;) {
        try {
          return await request();
        } catch (error) {
          const { code, retryAfterMs } = error as Partial<RelayClientError>;
          // Other conflicts have no Retry-After.
          if (code !== "conflict" || !retryAfterMs || performance.now() + retryAfterMs >= endsAt) throw error;
          // Once aborted, the next request fails.
          await pause(systemClock, retryAfterMs, signal ?? new AbortController().signal).catch(() => {});
        }
      }
    },
    async post<T>(path: string, body: unknown, more: Readonly<Record<string, string>>) {
      const { text, headers } = await request("POST", path, "application/json", JSON.stringify(body), more);
      return { body: parsed<T>(base.origin, text), headers };
    },
    async lines<T>(path: string, lines: string) {
      const { text } = await request("POST", path, "application/x-ndjson", lines);
      return text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => parsed<T>(base.origin, line));
    },
    async stream(path, headers, ended) {
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), timeoutMs);
      try {
        const answer = await call(path, { headers: { accept: "text/event-stream", ...headers } }, AbortSignal.any([ended, late.signal]));
        if (!answer.ok) throw refusal(base.origin, answer, await answer.text());
        const isStream = answer.headers.get("content-type")?.startsWith("text/event-stream") === true;
        if (isStream && answer.body !== null) return answer.body;
        throw new RelayClientError(`what answers at ${base.origin} is no wamid-relay (status ${answer.status})`, {
          status: answer.status,
          code: "bad_answer",
        });
      } catch (error) {
        throw error instanceof RelayClientError ? error : noAnswer(error, 0, late.signal.aborted);
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

function parsed<T>(origin: string, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw new RelayClientError(`what answers at ${origin} is no wamid-relay`, { status: 200, code: "bad_answer", cause });
  }
}

function refusal(origin: string, { status, headers }: Response, text: string): RelayClientError {
  const retryAfter = headers.get("retry-after");
  const retryAfterMs = retryAfter !== null && /^\d+$/.test(retryAfter) ? Number(retryAfter) * 1000 : null;
  try {
    const { error, code, details } = JSON.parse(text) as { error?: unknown; code?: unknown; details?: unknown };
    if (typeof error === "string" && typeof code === "string") {
      return new RelayClientError(error, { status, code: code as ErrorCode, details, retryAfterMs });
    }
  } catch {
    // Reported below.
  }
  return new RelayClientError(`what answers at ${origin} is no wamid-relay (status ${status})`, {
    status,
    code: "bad_answer",
    retryAfterMs,
  });
}

/** With its question mark; empty when no value is given. */
export function queryOf(values: Readonly<Record<string, unknown>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query.size === 0 ? "" : `?${query}`;
}
