import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { type EventId, isCanonicalUuid, maxIdLength } from "./ids.ts";

/** ISO 8601 date and time with a zone; fractions optional. `z.iso.datetime()` would refuse `+00:00` without its option. */
const createdAt = z.iso.datetime({ offset: true });

const identifier = z
  .string()
  .min(1)
  .max(maxIdLength)
  // A lone surrogate has no UTF-8 form: two different ids could be stored as one.
  .refine((text) => text.isWellFormed(), "is not well-formed text");

/**
 * The service's event envelope (messaging-service-api.md, "Event envelope"). Unknown fields are let
 * through and never touched: what is forwarded is the body as received, not this object.
 */
export const envelopeSchema = z.looseObject({
  id: identifier,
  event: identifier,
  createdAt,
  data: z.record(z.string(), z.unknown()),
});

export interface Envelope {
  readonly id: EventId;
  /** Event kind, e.g. `message.status`. Unknown kinds are valid. */
  readonly event: string;
  readonly createdAt: string;
  readonly data: Readonly<Record<string, unknown>>;
}

export type EnvelopeResult = { ok: true; envelope: Envelope } | { ok: false; error: string };

/**
 * Reads an envelope from the raw body. Never throws.
 * `error` is one line for the operator: what is wrong and where, without quoting the body.
 */
export function parseEnvelope(body: Buffer): EnvelopeResult {
  if (body.length === 0) return { ok: false, error: "the body is empty" };
  if (!isUtf8(body)) return { ok: false, error: "the body is not valid UTF-8" };
  return parseEnvelopeText(body.toString("utf8"));
}

/** The same of a body that is text already. */
export function parseEnvelopeText(body: string): EnvelopeResult {
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    return { ok: false, error: "the body is not valid JSON" };
  }
  if (isUsualEnvelope(value)) return { ok: true, envelope: value };
  const parsed = envelopeSchema.safeParse(value);
  if (!parsed.success) {
    const problems = parsed.error.issues.slice(0, 4).map((issue) => {
      const path = issue.path.map(String).join(".");
      return path === "" ? issue.message : `${path}: ${issue.message}`;
    });
    return { ok: false, error: problems.join("; ") };
  }
  return { ok: true, envelope: parsed.data as unknown as Envelope };
}

const usualEvent = /^[a-z._-]{1,64}$/;
const usualTime = /^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/**
 * True for envelopes as the service's document shows them: all of these are valid by the schema, and
 * finding that out so takes a tenth of its time, on every request. Whatever looks otherwise is the
 * schema's to judge.
 */
export function isUsualEnvelope(value: unknown): value is Envelope {
  if (typeof value !== "object" || value === null) return false;
  const { id, event, createdAt: at, data } = value as Record<string, unknown>;
  return (
    typeof id === "string" &&
    isCanonicalUuid(id) &&
    typeof event === "string" &&
    usualEvent.test(event) &&
    typeof at === "string" &&
    usualTime.test(at) &&
    typeof data === "object" &&
    data !== null &&
    !Array.isArray(data)
  );
}

/** True for the envelope that the service sends in place of data over 256 KB (messaging-service-api.md, "Events", 3). */
export function isTruncated(envelope: Envelope): boolean {
  return envelope.data["truncated"] === true;
}
