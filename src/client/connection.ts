import type { ErrorCode } from "../model/errors.ts";

/** `no_answer`: no complete answer arrived. `bad_answer`: the answer is not from a relay, or from another version. */
export type RelayClientErrorCode = ErrorCode | "no_answer" | "bad_answer";

interface RelayClientErrorParts {
  readonly status: number;
  readonly code: RelayClientErrorCode;
  readonly details?: unknown;
  readonly line?: number;
  readonly cause?: unknown;
}

/** The relay refused the request or could not be reached. `message` is for people and contains no token. */
export class RelayClientError extends Error {
  override readonly name = "RelayClientError";
  /** The answer's status; 0 when there was no answer. */
  readonly status: number;
  /** A code of docs/errors.md, or one of the client. */
  readonly code: RelayClientErrorCode;
  /** From the relay, such as `{stored, given}` by field in a conflict. */
  readonly details: unknown;
  /** In `trackAll`: number (from 1) of the first message that may not be registered; continue from there. */
  readonly line: number | null;

  constructor(message: string, { status, code, details, line, cause }: RelayClientErrorParts) {
    super(message, cause === undefined ? {} : { cause });
    this.status = status;
    this.code = code;
    this.details = details;
    this.line = line ?? null;
  }
}

export interface RelayClientOptions {
  /** The relay's URL, such as `https://relay.example`; it may have a path before `/v1`. */
  url: string | URL;
  /** One of `control.tokens` in the relay's settings. */
  token: string;
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
  /** Posts JSON with extra headers; returns the answer with its headers. */
  post<T>(path: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<{ readonly body: T; readonly headers: Headers }>;
  /** Posts NDJSON; returns the lines of the answer. */
  lines<T>(path: string, lines: string): Promise<T[]>;
}

/** Throws TypeError for an invalid URL or token. */
export function connect({ url, token, timeoutMs = 60_000, signal, fetch = globalThis.fetch }: RelayClientOptions): Connection {
  const base = new URL(url);
  if (!/^https?:$/.test(base.protocol)) throw new TypeError("url must be an http or https URL");
  // Checked here because fetch would show the whole token in its message.
  if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) throw new TypeError("token must be text without spaces");
  const root = `${base.origin}${base.pathname.replace(/\/+$/, "")}`;

  async function request(
    method: string,
    path: string,
    type: string | null,
    body: string | null,
    more: Readonly<Record<string, string>> = {},
  ): Promise<{ text: string; headers: Headers }> {
    const timeout = AbortSignal.timeout(timeoutMs);
    let status = 0;
    let text: string;
    let headers: Headers;
    try {
      const answer = await fetch(`${root}${path}`, {
        method,
        headers: { ...more, authorization: `Bearer ${token}`, ...(type === null ? {} : { "content-type": type }) },
        ...(body === null ? {} : { body }),
        // A redirect would send the token to another place.
        redirect: "error",
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      });
      ({ status, headers } = answer);
      text = await answer.text();
    } catch (cause) {
      throw new RelayClientError(`no answer from ${base.origin}${timeout.aborted ? ` within ${timeoutMs} ms` : ""}`, {
        status,
        code: "no_answer",
        cause,
      });
    }
    if (status < 200 || status > 299) throw refusal(base.origin, status, text);
    return { text, headers };
  }

  return {
    async json<T>(method: "GET" | "POST", path: string, body?: unknown) {
      const [type, sent] = body === undefined ? [null, null] : ["application/json", JSON.stringify(body)];
      const { text } = await request(method, path, type, sent);
      return parsed<T>(base.origin, text);
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
  };
}

function parsed<T>(origin: string, text: string): T {
  try {
    return JSON.parse(text) as T;
  } catch (cause) {
    throw new RelayClientError(`what answers at ${origin} is no wamid-relay`, { status: 200, code: "bad_answer", cause });
  }
}

function refusal(origin: string, status: number, text: string): RelayClientError {
  try {
    const { error, code, details } = JSON.parse(text) as { error?: unknown; code?: unknown; details?: unknown };
    if (typeof error === "string" && typeof code === "string") {
      return new RelayClientError(error, { status, code: code as ErrorCode, details });
    }
  } catch {
    // Reported below.
  }
  return new RelayClientError(`${origin} answered ${status}, and not as a wamid-relay would`, { status, code: "bad_answer" });
}

const largestPage = 500;

interface Page<T> {
  readonly data: readonly T[];
  readonly next: string | number | null;
}

/** Reads page after page, as the items are consumed, up to `limit` items. */
export async function* readPages<T>(
  connection: Connection,
  path: string,
  filter: Readonly<Record<string, unknown>>,
  limit = Number.POSITIVE_INFINITY,
): AsyncGenerator<T, void> {
  let left = limit;
  let before: string | number | undefined;
  while (left > 0) {
    const query = asQuery({ ...filter, before, limit: Math.min(largestPage, left) });
    const { data, next }: Page<T> = await connection.json("GET", `${path}?${query}`);
    for (const item of data.slice(0, left)) yield item;
    left -= data.length;
    if (next === null) return;
    before = next;
  }
}

function asQuery(values: Readonly<Record<string, unknown>>): URLSearchParams {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) query.set(name, value instanceof Date ? value.toISOString() : String(value));
  }
  return query;
}
