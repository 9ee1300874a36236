import { z } from "zod";
import type { Envelope } from "./envelope.ts";
import {
  type AccountName,
  cutText,
  derivedUuid,
  type EventId,
  hasIdLength,
  isStorable,
  maxIdLength,
  type RunId,
  type SourceName,
  type Wamid,
} from "./ids.ts";
import { readPath } from "./json.ts";
import { type RunStatus, runStatusOf } from "./statuses.ts";

/** How an event reached the relay. Tracking treats all alike. */
export const origins = ["webhook", "hydrate", "reconcile"] as const;
export type Origin = (typeof origins)[number];

/**
 * The headers stored with an event, names in lower case: those of its signature, an automation
 * request's content headers, `traceparent`.
 */
export type KeptHeaders = Readonly<Record<string, string>>;

interface Received {
  readonly account: AccountName;
  readonly source: SourceName;
  readonly origin: Origin;
  readonly receivedAt: number;
  readonly body: Buffer;
  readonly headers: KeptHeaders;
  /** Fingerprint of the secret that verified the event; null for events that the relay made. */
  readonly secret: string | null;
  /** How `body` is read. Absent: `standard`. */
  readonly format?: string;
  /**
   * Of an item of a request with several: see `requestText`. Of an automation's request: identifies
   * the same signed bytes.
   */
  readonly request?: string;
  readonly place?: number;
  /** `performance.now()` when its request began. Not stored; only while traces are on. */
  readonly startedAt?: number;
}

export interface ReceivedEvent extends Received {
  readonly envelope: Envelope;
  readonly subject: Subject;
  readonly releaseOf?: number;
}

export interface QuarantinedBody extends Received {
  /** `unassigned`: a valid event whose business number no account has. Absent: `quarantined`. */
  readonly disposition?: "quarantined" | "unassigned";
  readonly error: string;
  /** Where the format derives ids: it is stored once. */
  readonly id?: EventId;
  readonly number?: string | undefined;
}

const paths = (...fallback: string[]) => z.array(z.string().min(1)).min(1).default(fallback);

/**
 * Dotted paths in `data`, tried in order. They are settings, because the service's document does
 * not show the full payload of `message.status`.
 */
export const fieldsSchema = z.strictObject({
  wamid: paths("wamid").describe("Paths of the message."),
  status: paths("status").describe("Paths of its status."),
  errorCode: paths("errorCode").describe("Paths of why it failed."),
  runId: paths("runId").describe("Paths of the automation run."),
  error: paths("error").describe("Paths of why the run failed."),
});
export type FieldPaths = z.infer<typeof fieldsSchema>;

export type Subject =
  | {
      readonly type: "message";
      readonly wamid: Wamid;
      readonly status: string | null;
      readonly errorCode: string | null;
      readonly reference?: string;
    }
  | {
      readonly type: "run";
      readonly runId: RunId;
      readonly status: RunStatus | null;
      readonly error: string | null;
    }
  | { readonly type: "none" };

export type TrackedSubject = Exclude<Subject, { readonly type: "none" }>;

const none: Subject = { type: "none" };

/** Fields of a wrong type count as absent. */
export function subjectOf(envelope: Envelope, fields: FieldPaths): Subject {
  if (envelope.event.startsWith("message.")) {
    const wamid = identifier(first(envelope.data, fields.wamid));
    if (wamid === null) return none;
    const status = first(envelope.data, fields.status);
    return {
      type: "message",
      wamid: wamid as Wamid,
      status: typeof status === "string" && status !== "" ? cutText(status, maxIdLength) : null,
      errorCode: codeText(first(envelope.data, fields.errorCode)),
    };
  }
  if (envelope.event.startsWith("automation.")) {
    const runId = identifier(first(envelope.data, fields.runId));
    if (runId === null) return none;
    const error = first(envelope.data, fields.error);
    return {
      type: "run",
      runId: runId as RunId,
      status: runStatusOf(envelope.event),
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
  return typeof value === "string" && value !== "" && hasIdLength(value) && isStorable(value)
    ? value
    : null;
}

/** Error codes are text, because providers mix numbers, numeric strings and words. */
export function codeText(value: unknown): string | null {
  if (typeof value === "number" && Number.isFinite(value)) return String(value);
  if (typeof value === "string" && value !== "") return cutText(value, maxIdLength);
  return null;
}

export interface PolledStatus {
  readonly account: AccountName;
  readonly source: SourceName;
  /** The places of that source's fields. The event has its fields at the first of each. */
  readonly fields: FieldPaths;
  readonly origin: Exclude<Origin, "webhook">;
  readonly messageId: string;
  readonly wamid: Wamid;
  readonly status: string;
  readonly errorCode: string | number | null;
  readonly at: number;
  readonly because?: string;
}

/**
 * The event that a webhook would have delivered. Its id depends on account, message and status
 * alone, so that two processes that find a status make one event.
 */
export function polledEvent(found: PolledStatus): ReceivedEvent {
  const { account, source, fields, origin, messageId, wamid, status, errorCode, at, because } =
    found;
  const data: Record<string, unknown> = Object.create(null);
  put(data, fields.wamid, wamid);
  put(data, fields.status, status);
  if (errorCode !== null) put(data, fields.errorCode, errorCode);
  const envelope: Envelope & { readonly relay: unknown } = {
    id: polledEventId(account, messageId, status),
    event: "message.status",
    createdAt: new Date(at).toISOString(),
    data,
    relay: { origin, messageId, ...(because === undefined ? {} : { because }) },
  };
  return {
    account,
    source,
    origin,
    receivedAt: at,
    body: Buffer.from(JSON.stringify(envelope), "utf8"),
    headers: {},
    secret: null,
    envelope,
    subject: subjectOf(envelope, fields),
  };
}

export function polledEventId(account: AccountName, messageId: string, status: string): EventId {
  return derivedUuid(`wamid-relay learned\0${account}\0${messageId}\0${status}`) as EventId;
}

/**
 * Sets the value at the first of the dotted paths. Digits in a path become keys of an object, which
 * `readPath` reads alike.
 */
function put(data: Record<string, unknown>, paths: readonly string[], value: unknown): void {
  const keys = (paths[0] as string).split(".");
  const last = keys.pop() as string;
  let place = data;
  for (const key of keys) {
    const inner = place[key];
    // Without a prototype, `__proto__` is a key like any other.
    const next = typeof inner === "object" && inner !== null ? inner : Object.create(null);
    place[key] = next;
    place = next as Record<string, unknown>;
  }
  place[last] = value;
}
