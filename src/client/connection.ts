import type { ErrorCode } from "../event/errors.ts";
import { RelayClientError } from "./relay-client-error.ts";

export interface RelayClientOptions {
  /** Where the relay is, such as `https://relay.example`; a path in front of `/v1` may be part of it. */
  url: string | URL;
  /** One of `control.tokens` in the relay's settings. */
  token: string;
  /** Longest wait for one answer, in milliseconds. Default: a minute. */
  timeoutMs?: number | undefined;
  /** Ends what is under way, and all that comes later. */
  signal?: AbortSignal | undefined;
  /** Instead of the global one, for proxies and tests. */
  fetch?: typeof globalThis.fetch | undefined;
}

/** Throws {@link RelayClientError} for whatever is no 2xx. */
export interface Connection {
  json<T>(method: "GET" | "POST", path: string, body?: unknown): Promise<T>;
  /** Posts JSON with headers beside the token's; gives the answer with its own. */
  post<T>(path: string, body: unknown, headers: Readonly<Record<string, string>>): Promise<{ readonly body: T; readonly headers: Headers }>;
  /** Posts NDJSON; gives the lines of the answer. */
  lines<T>(path: string, lines: string): Promise<T[]>;
}

/** Throws TypeError when URL or token are none. */
export function connect({ url, token, timeoutMs = 60_000, signal, fetch = globalThis.fetch }: RelayClientOptions): Connection {
  const base = new URL(url);
  if (!/^https?:$/.test(base.protocol)) throw new TypeError("url must be an http or https URL");
  // Told here, because fetch would show the whole of it in its message.
  if (typeof token !== "string" || !/^[\x21-\x7e]+$/.test(token)) throw new TypeError("token must be text without spaces");
  const root = `${base.origin}${base.pathname.replace(/\/+$/, "")}`;

  async function ask(
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
        // A redirect would carry the token elsewhere.
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
      const { text } = await ask(method, path, type, sent);
      return parsed<T>(base.origin, text);
    },
    async post<T>(path: string, body: unknown, more: Readonly<Record<string, string>>) {
      const { text, headers } = await ask("POST", path, "application/json", JSON.stringify(body), more);
      return { body: parsed<T>(base.origin, text), headers };
    },
    async lines<T>(path: string, lines: string) {
      const { text } = await ask("POST", path, "application/x-ndjson", lines);
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
    // Said below.
  }
  return new RelayClientError(`${origin} answered ${status}, and not as a wamid-relay would`, { status, code: "bad_answer" });
}
