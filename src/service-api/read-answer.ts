import type { z } from "zod";
import type { CallCap } from "./admission.ts";
import type { Endpoint } from "./endpoints.ts";
import { readErrorBody, readProblems } from "./error-body.ts";
import { httpDate, judgeRenewal } from "./renewal.ts";
import { type CallEffect, ServiceError, type ServiceFailure } from "./service-error.ts";

export interface Answer {
  readonly status: number;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Uint8Array;
}

export type Read<T> = { readonly ok: true; readonly value: T } | { readonly ok: false; readonly error: ServiceError };

/** Why bytes are no JSON, in words that quote nothing of them; or what they are. */
type Parsed = { readonly problem: string } | { readonly problem: null; readonly json: unknown };

/**
 * Reads an answer of the service, whatever it is: never throws. `now` (unix milliseconds) is for the
 * time of the quota's renewal.
 */
export function readAnswer<T>(endpoint: Endpoint<T>, answer: Answer, now: number): Read<T> {
  const { status } = answer;
  const parsed = parse(answer.bytes);
  if (status < 200 || status > 299) return { ok: false, error: readFailure(endpoint, answer, parsed, now) };
  if (endpoint.mayBeEmpty && answer.bytes.length === 0) return checked(endpoint, status, null);
  return parsed.problem === null
    ? checked(endpoint, status, parsed.json)
    : { ok: false, error: malformed(endpoint, status, parsed.problem) };
}

/** An answer that is not what the document says. A 4xx still says that nothing was done. */
export function malformed(endpoint: Pick<Endpoint<unknown>, "name">, status: number, problem: string): ServiceError {
  return serviceError(endpoint.name, status, null, effectOf(status), { kind: "malformed", problem });
}

function checked<T>(endpoint: Endpoint<T>, status: number, json: unknown): Read<T> {
  const read = endpoint.answer.safeParse(json);
  return read.success ? { ok: true, value: read.data } : { ok: false, error: malformed(endpoint, status, issues(read.error)) };
}

function readFailure(endpoint: Endpoint<unknown>, answer: Answer, parsed: Parsed, now: number): ServiceError {
  const { status, headers } = answer;
  const json = parsed.problem === null ? parsed.json : undefined;
  const body = readErrorBody(json);
  const text = body?.text ?? null;
  const fail = (failure: ServiceFailure, outcome = effectOf(status)) => serviceError(endpoint.name, status, text, outcome, failure);
  const unlikeDocument = (expected: string) => malformed(endpoint, status, parsed.problem ?? `the body is not ${expected}`);

  switch (status) {
    case 400: {
      const problems = body === null ? readProblems(json) : [];
      return problems === null ? unlikeDocument("{error}, with problems or a text in it") : fail({ kind: "validation", problems });
    }
    case 401:
      return body === null ? unlikeDocument("{error}") : fail({ kind: "unauthenticated" });
    case 402:
      return body?.cause ? fail({ kind: "plan", cause: body.cause }) : unlikeDocument("{error, cause}");
    case 404:
      return body === null ? unlikeDocument("{error}") : fail({ kind: "not-found" });
    case 409:
      return body === null ? unlikeDocument("{error}") : fail({ kind: "conflict" });
    case 429: {
      if (body === null) return unlikeDocument("{error}");
      if (body.cause) return fail({ kind: "quota", cause: body.cause, until: judgeRenewal(httpDate(headers["date"]), now).at });
      const rate = rateLimit(headers);
      // The block for bad keys has the same status and body; only the cap comes with these headers.
      return fail(rate === null ? { kind: "blocked" } : { kind: "rate-limited", ...rate, cap: capReached(endpoint, body.text) });
    }
    case 500:
      // Its body is not shown: whatever it is, it is not malformed.
      return fail({ kind: "unexpected", retryAfterMs: wholeNumber(headers["retry-after"], 1000) });
    case 502:
      // In the documented shape, with its `cause: null`, it is the provider's refusal; anything else may be a proxy's, which
      // knows nothing of what was done. Many proxies say `{"error": …}` too: to take that for a refusal could send twice.
      return body?.cause === null ? fail({ kind: "rejected" }, "not-done") : fail({ kind: "undocumented" });
    default:
      return fail({ kind: "undocumented" });
  }
}

/** What the headers of a per-minute cap say; null when there are none of them. */
export function rateLimit(headers: Answer["headers"]): { retryAfterMs: number | null; limit: number | null } | null {
  const retryAfter = headers["retry-after"];
  const limit = headers["x-ratelimit-limit"];
  if (retryAfter === undefined && limit === undefined) return null;
  return { retryAfterMs: wholeNumber(retryAfter, 1000), limit: wholeNumber(limit, 1) };
}

/**
 * Only `POST /messages` counts against both caps; which of them it reached is told by the text alone, which
 * "speaks of messages per minute". That is reading a text meant for people, so it is a hint, and no more.
 */
function capReached(endpoint: Endpoint<unknown>, text: string): CallCap | null {
  if (endpoint.cap === "requests") return "requests";
  return /mensajes/i.test(text) ? "messages" : null;
}

/** Seconds or a count in a header, times `unit`; null when it is neither, or beyond reason. */
function wholeNumber(header: string | string[] | undefined, unit: number): number | null {
  const text = (typeof header === "string" ? header : header?.[0])?.trim();
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) * unit : null;
}

function parse(bytes: Uint8Array): Parsed {
  if (bytes.length === 0) return { problem: "the body is empty" };
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return { problem: "the body is not UTF-8" };
  }
  try {
    return { problem: null, json: JSON.parse(text) as unknown };
  } catch {
    return { problem: "the body is not JSON" };
  }
}

/** Where the body differs, without what is there. */
function issues({ issues: found }: z.ZodError): string {
  return found
    .slice(0, 3)
    .map(({ path, message }) => `${path.length === 0 ? "the body" : path.join(".")}: ${message}`)
    .join("; ");
}

function effectOf(status: number): CallEffect {
  return status >= 400 && status <= 499 ? "not-done" : "unknown";
}

function serviceError(endpoint: string, status: number, text: string | null, outcome: CallEffect, failure: ServiceFailure): ServiceError {
  return new ServiceError({ endpoint, status, text, outcome, local: false, failure });
}
