import { pause, systemClock } from "../model/clock.ts";
import type { ErrorCode } from "../model/errors.ts";

/**
 * `no_answer`: no complete answer arrived. `bad_answer`: the answer is not from a relay, or from
 * another version.
 */
export type RelayClientErrorCode = ErrorCode | "no_answer" | "bad_answer";

interface RelayClientErrorParts {
  readonly status: number;
  readonly code: RelayClientErrorCode;
  readonly details?: unknown;
  readonly line?: number | null;
  readonly retryAfterMs?: number | null;
  readonly cause?: unknown;
}

/**
 * The relay refused the request or could not be reached. `message` is for people and contains no
 * token.
 */
export class RelayClientError extends Error {
  override readonly name = "RelayClientError";
  /** The answer's status; 0 when there was no answer. */
  readonly status: number;
  /** A code of docs/reference/errors.md, or one of the client. */
  readonly code: RelayClientErrorCode;
  /** From the relay, such as `{stored, given}` by field in a conflict. */
  readonly details: unknown;
  /**
   * In `trackAll`: number (from 1) of the first message that may not be registered; continue from
   * there.
   */
  readonly line: number | null;
  /** The answer's `Retry-After`, in milliseconds. */
  readonly retryAfterMs: number | null;

  constructor(
    message: string,
    { status, code, details, line = null, retryAfterMs = null, cause }: RelayClientErrorParts,
  ) {
    super(message, cause === undefined ? {} : { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.line = line;
    this.retryAfterMs = retryAfterMs;
  }
}

export function errorWith(
  error: RelayClientError,
  more: Pick<RelayClientErrorParts, "line" | "details">,
): RelayClientError {
  return new RelayClientError(error.message, { ...error, cause: error.cause, ...more });
}

export interface RelayClientOptions {
  /** The relay's URL, such as `https://relay.example`; it may have a path before `/v1`. */
  url: string | URL;
  /**
   * One of `control.tokens` in the relay's settings. Without a token, the browser's session cookie
   * authorizes the requests: only for pages that the relay itself serves.
   */
  token?: string | undefined;
  /** Longest wait for one answer, in milliseconds. Default: one minute. */
  timeoutMs?: number | undefined;
  /** Aborts requests in flight and all later ones. */
  signal?: AbortSignal | undefined;
  /** Replaces the global `fetch`, for proxies and tests. */
  fetch?: typeof globalThis.fetch | undefined;
}

type HeaderMap = Readonly<Record<string, string>>;
type Method = "GET" | "POST";

/**
 * Verifies to the relay that a request with a cookie comes from its own page: another site cannot
 * set it.
 */
const fromConsole = { "x-wamid-relay": "console" };

export type Connection = ReturnType<typeof connect>;

/**
 * Methods throw {@link RelayClientError} unless the answer is a 2xx. Throws TypeError for an
 * invalid URL or token.
 */
export function connect({
  url,
  token,
  timeoutMs = 60_000,
  signal,
  fetch = globalThis.fetch,
}: RelayClientOptions) {
  const base = new URL(url);
  if (!/^https?:$/.test(base.protocol)) throw new TypeError("url must be an http or https URL");
  // Checked here because fetch would show the whole token in its message.
  if (token !== undefined && (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)))
    throw new TypeError("token must be text without spaces");
  const caller = token === undefined ? fromConsole : { authorization: `Bearer ${token}` };
  const root = `${base.origin}${base.pathname.replace(/\/+$/, "")}`;

  /** Resolves when the headers of the answer are complete. `over` ends it, at any time. */
  async function call(
    path: string,
    init: RequestInit & { headers: HeaderMap },
    over: AbortSignal,
  ): Promise<Response> {
    return fetch(`${root}${path}`, {
      ...init,
      headers: { ...init.headers, ...caller },
      // A redirect would send the token to another place.
      redirect: "manual",
      credentials: token === undefined ? "same-origin" : "omit",
      signal: signal === undefined ? over : AbortSignal.any([over, signal]),
    });
  }

  function noAnswer(cause: unknown, status: number, isLate: boolean): RelayClientError {
    const message = `no answer from ${base.origin}${isLate ? ` within ${timeoutMs} ms` : ""}`;
    return new RelayClientError(message, { status, code: "no_answer", cause });
  }

  function noRelay(about: string, parts: Omit<RelayClientErrorParts, "code">): RelayClientError {
    return new RelayClientError(`what answers at ${base.origin} is no wamid-relay${about}`, {
      code: "bad_answer",
      ...parts,
    });
  }

  function refusal({ status, headers }: Response, text: string): RelayClientError {
    // Browsers hide what a redirect says.
    if (status === 0) return noAnswer(undefined, 0, false);
    const retryAfterMs = retryAfterOf(headers.get("retry-after"));
    try {
      const { error, code, details } = JSON.parse(text) as Record<string, unknown>;
      if (typeof error === "string" && typeof code === "string")
        return new RelayClientError(error, {
          status,
          code: code as ErrorCode,
          details,
          retryAfterMs,
        });
    } catch {}
    return noRelay(` (status ${status})`, { status, retryAfterMs });
  }

  function parsed<T>(text: string): T {
    try {
      return JSON.parse(text) as T;
    } catch (cause) {
      throw noRelay("", { status: 200, cause });
    }
  }

  async function request(method: Method, path: string, body?: string, headers: HeaderMap = {}) {
    const timeout = AbortSignal.timeout(timeoutMs);
    let status = 0;
    let answer: Response;
    let text: string;
    try {
      answer = await call(
        path,
        { method, headers, ...(body === undefined ? {} : { body }) },
        timeout,
      );
      ({ status } = answer);
      text = await answer.text();
    } catch (cause) {
      throw noAnswer(cause, status, timeout.aborted);
    }
    if (!answer.ok) throw refusal(answer, text);
    return { text, headers: answer.headers };
  }

  async function exchange<T>(method: Method, path: string, body?: unknown, more: HeaderMap = {}) {
    const headers = body === undefined ? more : { ...more, "content-type": "application/json" };
    const answer = await request(
      method,
      path,
      body === undefined ? undefined : JSON.stringify(body),
      headers,
    );
    return { body: parsed<T>(answer.text), headers: answer.headers as Headers };
  }

  return {
    exchange,
    async json<T>(method: Method, path: string, body?: unknown): Promise<T> {
      return (await exchange<T>(method, path, body)).body;
    },
    /** Posts NDJSON; returns the lines of the answer. */
    async lines<T>(path: string, lines: string): Promise<T[]> {
      const { text } = await request("POST", path, lines, {
        "content-type": "application/x-ndjson",
      });
      return text.split("\n").flatMap((line) => (line === "" ? [] : [parsed<T>(line)]));
    },
    /**
     * Repeats a request while another one with its key is in flight, at most for the longest wait
     * for one answer. The relay then returns the answer of the other one.
     */
    async onceFree<T>(request: () => Promise<T>): Promise<T> {
      const endsAt = performance.now() + timeoutMs;
      for (;;) {
        try {
          return await request();
        } catch (error) {
          const { code, retryAfterMs } = error as Partial<RelayClientError>;
          // Other conflicts have no Retry-After.
          if (code !== "conflict" || !retryAfterMs || performance.now() + retryAfterMs >= endsAt)
            throw error;
          // Once aborted, the next request fails.
          await pause(systemClock, retryAfterMs, signal ?? new AbortController().signal).catch(
            () => {},
          );
        }
      }
    },
    /**
     * Opens a stream of server-sent events. `timeoutMs` is the longest wait for its first byte; the
     * stream itself has no end.
     */
    async stream(
      path: string,
      headers: HeaderMap,
      ended: AbortSignal,
    ): Promise<ReadableStream<Uint8Array>> {
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(), timeoutMs);
      try {
        const answer = await call(
          path,
          { headers: { accept: "text/event-stream", ...headers } },
          AbortSignal.any([ended, late.signal]),
        );
        if (!answer.ok) throw refusal(answer, await answer.text());
        const isStream =
          answer.headers.get("content-type")?.startsWith("text/event-stream") === true;
        if (isStream && answer.body !== null) return answer.body;
        throw noRelay(` (status ${answer.status})`, { status: answer.status });
      } catch (error) {
        throw error instanceof RelayClientError ? error : noAnswer(error, 0, late.signal.aborted);
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

const retryAfterOf = (seconds: string | null): number | null =>
  /^\d+$/.test(seconds ?? "") ? Number(seconds) * 1000 : null;

/** With its question mark; empty when no value is given. */
export function queryOf(values: object): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined)
      query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query.size === 0 ? "" : `?${query}`;
}
