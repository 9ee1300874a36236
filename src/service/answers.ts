import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from "node:zlib";
import { z } from "zod";
import { issueText } from "../model/issue-text.ts";
import { isObject, parseExact } from "../model/json.ts";
import { retryAfterMs } from "../net/exchange.ts";
import { type CallCap, type Endpoint, type PlanCause, planCauseSchema } from "./endpoints.ts";
import {
  type CallEffect,
  ServiceError,
  type ServiceFailure,
  type ValidationProblem,
} from "./errors.ts";
import { renewalOf } from "./limits/caps.ts";

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly bytes: Uint8Array;
}

export type Read<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: ServiceError };

type Parsed = { readonly problem: string } | { readonly problem: null; readonly json: unknown };

/** The sender receives the text, problems and cause of an error, so a larger body is not read. */
export const longestErrorBody = 64 * 1024;

/** Never throws. `unread`: why the body could not be received or decoded. */
export function readAnswer<T>(
  endpoint: Endpoint<T>,
  answer: Answer,
  now: number,
  unread: string | null = null,
): Read<T> {
  const { status, bytes } = answer;
  const isSuccess = status >= 200 && status <= 299;
  const problem =
    unread ??
    (!isSuccess && bytes.length > longestErrorBody
      ? `the body is longer than ${longestErrorBody} bytes`
      : null);
  const parsed: Parsed = problem === null ? parse(bytes) : { problem };
  if (!isSuccess) return { ok: false, error: readFailure(endpoint, answer, parsed, now) };
  if (parsed.problem !== null)
    return { ok: false, error: malformed(endpoint, status, parsed.problem) };
  const read = endpoint.answer.safeParse(parsed.json, { error: (issue) => issueText(issue) });
  return read.success
    ? { ok: true, value: read.data }
    : { ok: false, error: malformed(endpoint, status, issues(read.error)) };
}

function malformed(
  endpoint: Pick<Endpoint<unknown>, "name">,
  status: number,
  problem: string,
  text: string | null = null,
): ServiceError {
  return serviceError(endpoint.name, status, text, effectOf(status), {
    kind: "malformed",
    problem,
  });
}

/**
 * The status decides, because proxies and later versions change bodies. The body adds the text, the
 * problems and the cause.
 */
function readFailure(
  endpoint: Endpoint<unknown>,
  answer: Answer,
  parsed: Parsed,
  now: number,
): ServiceError {
  const { status, headers } = answer;
  const { text, problems, cause, isDocumented } = readErrorBody(
    parsed.problem === null ? parsed.json : undefined,
  );
  const fail = (failure: ServiceFailure, outcome = effectOf(status)) =>
    serviceError(endpoint.name, status, text, outcome, failure);

  switch (status) {
    case 400:
      return fail({ kind: "validation", problems });
    case 401:
      return fail({ kind: "unauthenticated" });
    case 402:
      return fail({ kind: "plan", cause: cause ?? null });
    case 404:
      // Any server at a wrong base URL answers 404 too. Only the service's own 404 means not found.
      return text === null
        ? malformed(endpoint, status, parsed.problem ?? "the body has no error text")
        : fail({ kind: "not-found" });
    case 409:
      return fail({ kind: "conflict" });
    case 429: {
      if (cause?.type === "upgrade")
        return fail({ kind: "quota", cause, until: renewalOf(now).at });
      const rate = rateLimit(headers, now);
      // The block for bad keys has the same status and body as a cap; only the cap comes with these
      // headers.
      if (rate === null && isDocumented && !cause) return fail({ kind: "blocked" });
      return fail({
        kind: "rate-limited",
        ...(rate ?? { retryAfterMs: null, limit: null }),
        cap: capReached(endpoint, text ?? ""),
      });
    }
    case 500:
      return fail({ kind: "unexpected" });
    case 502:
      // Only the documented shape, with `cause: null`, is the provider's refusal. Anything else may
      // come from a proxy, which does not know what was done. Many proxies answer `{"error": …}`:
      // taking that for a refusal could send twice.
      return isDocumented && cause === null
        ? fail({ kind: "rejected" }, "not-done")
        : fail({ kind: "undocumented" });
    default:
      return fail({ kind: "undocumented" });
  }
}

function rateLimit(
  headers: Answer["headers"],
  now: number,
): { retryAfterMs: number | null; limit: number | null } | null {
  const retryAfter = headers["retry-after"];
  const limit = headers["x-ratelimit-limit"];
  if (retryAfter === undefined && limit === undefined) return null;
  const ms = retryAfterMs(retryAfter, now, Number.POSITIVE_INFINITY);
  // Longer than nine digits of seconds: malformed.
  return { retryAfterMs: ms === null || ms >= 1e12 ? null : ms, limit: wholeNumber(limit) };
}

/**
 * Only `POST /messages` counts against both caps, and only the text hints at which one it reached.
 */
function capReached(endpoint: Endpoint<unknown>, text: string): CallCap | null {
  if (endpoint.operation !== "messages") return "requests";
  return /mensajes/i.test(text) ? "messages" : null;
}

/** Null when absent, malformed or longer than nine digits. */
function wholeNumber(header: string | string[] | undefined): number | null {
  const text = (typeof header === "string" ? header : header?.[0])?.trim();
  return text !== undefined && /^\d{1,9}$/.test(text) ? Number(text) : null;
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
    return { problem: null, json: parseExact(text) };
  } catch {
    return { problem: "the body is not JSON" };
  }
}

function issues({ issues: found }: z.ZodError): string {
  return found
    .slice(0, 3)
    .map(({ path, message }) => `${path.length === 0 ? "the body" : path.join(".")}: ${message}`)
    .join("; ");
}

function effectOf(status: number): CallEffect {
  return status >= 400 && status <= 499 ? "not-done" : "unknown";
}

function serviceError(
  endpoint: string,
  status: number,
  text: string | null,
  outcome: CallEffect,
  failure: ServiceFailure,
): ServiceError {
  return new ServiceError({ endpoint, status, text, outcome, local: false, failure });
}

interface ErrorBody {
  readonly text: string | null;
  readonly problems: readonly ValidationProblem[];
  /** Undefined where the body has no such field, as some documented 429s. */
  readonly cause: PlanCause | null | undefined;
  /** `{error: <text>}`, the documented shape of all errors but validation. */
  readonly isDocumented: boolean;
}

const problemsShape = z.array(
  z.looseObject({
    path: z.union([z.string(), z.array(z.union([z.string(), z.number()]))]),
    message: z.string(),
  }),
);

function readErrorBody(json: unknown): ErrorBody {
  const body = isObject(json) ? json : {};
  const { error, cause } = body;
  const inner = isObject(error) ? error : undefined;
  const message =
    [error, inner?.["message"], body["message"]].find((text) => typeof text === "string") ?? null;
  const problems = inner === undefined || message === null ? null : readProblems(message);
  return {
    text: problems === null ? message : null,
    problems: problems ?? [],
    cause: cause === null ? null : planCauseSchema.safeParse(cause).data,
    isDocumented: typeof error === "string",
  };
}

/** The list that is JSON text inside `error.message`; null when it is another text. */
function readProblems(message: string): readonly ValidationProblem[] | null {
  let list: unknown;
  try {
    list = JSON.parse(message);
  } catch {
    return null;
  }
  const problems = problemsShape.safeParse(list);
  if (!problems.success) return null;
  return problems.data.map(({ path, message: why }) => ({
    path: typeof path === "string" ? path : path.join("."),
    message: why,
  }));
}

const decoders: Readonly<
  Record<string, (bytes: Uint8Array, limits: { readonly maxOutputLength: number }) => Buffer>
> = {
  gzip: gunzipSync,
  "x-gzip": gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
  zstd: zstdDecompressSync,
};

/**
 * Some proxies compress unasked, once. `problem`: why it cannot be read. The body never grows
 * longer than `maxBytes`.
 */
export function decodeAnswer(
  answer: Answer,
  maxBytes: number,
): { readonly answer: Answer; readonly problem: string | null } {
  const { headers, bytes } = answer;
  const encoding = String(headers["content-encoding"] ?? "")
    .trim()
    .toLowerCase();
  if (encoding === "" || encoding === "identity" || bytes.length === 0)
    return { answer, problem: null };
  const decode = Object.hasOwn(decoders, encoding) ? decoders[encoding] : undefined;
  if (decode === undefined)
    return { answer, problem: "the body has a content encoding that the relay cannot read" };
  try {
    return {
      answer: { ...answer, bytes: decode(bytes, { maxOutputLength: maxBytes }) },
      problem: null,
    };
  } catch (error) {
    const isTooLong = (error as { readonly code?: unknown }).code === "ERR_BUFFER_TOO_LARGE";
    return {
      answer,
      problem: isTooLong
        ? `the decompressed body is longer than ${maxBytes} bytes`
        : `the body is not valid ${encoding}`,
    };
  }
}
