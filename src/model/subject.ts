import { z } from "zod";
import type { Envelope } from "./envelope.ts";
import { mayBeRounded, parseExact } from "./exact-json.ts";
import { cutText, hasIdLength, maxIdLength, type RunId, type Wamid } from "./ids.ts";
import { readPath } from "./read-path.ts";

const paths = (...fallback: string[]) => z.array(z.string().min(1)).min(1).default(fallback);

/**
 * Where in `data` the tracked fields are, as dotted paths tried in order. The service's document does
 * not show the full payload of `message.status`, so this is a setting and not a fact.
 */
export const fieldsSchema = z.strictObject({
  wamid: paths("wamid"),
  status: paths("status"),
  errorCode: paths("errorCode"),
  runId: paths("runId"),
  error: paths("error"),
});
export type FieldPaths = z.infer<typeof fieldsSchema>;

/** What an event is about: a message, a run, or nothing that is tracked. */
export type Subject =
  | { readonly type: "message"; readonly wamid: Wamid; readonly status: string | null; readonly errorCode: string | null }
  | { readonly type: "run"; readonly runId: RunId; readonly status: "completed" | "failed" | null; readonly error: string | null }
  | { readonly type: "none" };

const none: Subject = { type: "none" };

/**
 * Reads the subject of an event. Fields of a wrong type count as absent: they never make an event invalid. `body` is the
 * envelope's text, from which an error code gets the digits that a JavaScript number cannot hold.
 */
export function subjectOf(envelope: Envelope, fields: FieldPaths, body: Buffer): Subject {
  if (envelope.event.startsWith("message.")) {
    const wamid = identifier(first(envelope.data, fields.wamid));
    if (wamid === null) return none;
    const status = first(envelope.data, fields.status);
    return {
      type: "message",
      wamid: wamid as Wamid,
      status: typeof status === "string" && status !== "" ? cutText(status, maxIdLength) : null,
      errorCode: codeText(exactly(first(envelope.data, fields.errorCode), fields, body)),
    };
  }
  if (envelope.event.startsWith("automation.")) {
    const runId = identifier(first(envelope.data, fields.runId));
    if (runId === null) return none;
    const error = first(envelope.data, fields.error);
    return {
      type: "run",
      runId: runId as RunId,
      status: envelope.event === "automation.completed" ? "completed" : envelope.event === "automation.failed" ? "failed" : null,
      error: typeof error === "string" ? cutText(error, 1024) : null,
    };
  }
  return none;
}

function first(data: Readonly<Record<string, unknown>>, candidates: readonly string[]): unknown {
  for (const path of candidates) {
    const value = readPath(data, path);
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

function identifier(value: unknown): string | null {
  return typeof value === "string" && value !== "" && hasIdLength(value) && value.isWellFormed() ? value : null;
}

function exactly(code: unknown, fields: FieldPaths, body: Buffer): unknown {
  if (!mayBeRounded(code)) return code;
  try {
    const { data } = parseExact(body.toString("utf8")) as Pick<Envelope, "data">;
    return first(data, fields.errorCode);
  } catch {
    // `parseExact` recurses where `JSON.parse` does not: a body nested some thousand levels deep keeps the rounded number.
    return code;
  }
}

/** Error codes stay text: providers mix numbers, numeric strings and words (FACTS.md, "The domain"). */
export function codeText(value: unknown): string | null {
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  if (typeof value === "string" && value !== "") return cutText(value, maxIdLength);
  return null;
}
