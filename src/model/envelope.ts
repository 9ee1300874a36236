import { isUtf8 } from "node:buffer";
import { z } from "zod";
import { type EventId, hasIdLength, isCanonicalUuid, isStorable } from "./ids.ts";

const expected = (words: string) => ({
  error: ({ input }: { input?: unknown }) =>
    input === undefined ? "is missing" : `must be ${words}`,
});

const identifier = z
  .string(expected("text"))
  .min(1, "is empty")
  .refine(hasIdLength, "is longer than 256 characters")
  // A lone surrogate has no UTF-8 form: two different ids could be stored as one.
  .refine((text) => text.isWellFormed(), "is not well-formed text");

/**
 * The service's event envelope (messaging-service-api.md, "Event envelope"). `createdAt` is absent
 * because no value of it makes an event invalid.
 */
export const envelopeSchema = z.looseObject(
  {
    id: identifier,
    // The id is stored as bytes.
    event: identifier.refine(isStorable, "has a NUL character"),
    data: z.record(z.string(), z.unknown(), expected("an object or null")).nullable(),
  },
  "the body is not a JSON object",
);

export interface Envelope {
  readonly id: EventId;
  /** Event kind, e.g. `message.status`. Unknown kinds are valid. */
  readonly event: string;
  /**
   * ISO 8601 with a zone; null when the body has no readable time. The time of receipt counts then.
   */
  readonly createdAt: string | null;
  readonly data: Readonly<Record<string, unknown>>;
}

type EnvelopeResult = { ok: true; envelope: Envelope } | { ok: false; error: string };

const ours = "the relay reads {id, event, createdAt, data}";

/**
 * Reads an envelope. Never throws. `error` is one line for the operator, which does not quote the
 * body.
 */
export function parseEnvelope(body: Buffer): EnvelopeResult {
  if (body.length === 0) return { ok: false, error: "the body is empty" };
  if (!isUtf8(body)) return { ok: false, error: "the body is not valid UTF-8" };
  const text = body.toString("utf8");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    const form = otherForm(text);
    return {
      ok: false,
      error: form === undefined ? "the body is not valid JSON" : `the body is ${form}; ${ours}`,
    };
  }
  if (isUsualEnvelope(value)) return { ok: true, envelope: value };
  const parsed = envelopeSchema.safeParse(value);
  if (!parsed.success) {
    const other = otherEnvelope(value);
    if (other !== undefined)
      return { ok: false, error: `the body is an envelope of ${other}; ${ours}` };
    const problems = parsed.error.issues.slice(0, 4).map((issue) => {
      const path = issue.path.map(String).join(".");
      return path === "" ? issue.message : `${path} ${issue.message}`;
    });
    return { ok: false, error: problems.join("; ") };
  }
  const { id, event, data } = parsed.data;
  return {
    ok: true,
    envelope: {
      id: id as EventId,
      event,
      createdAt: readTime(parsed.data["createdAt"]),
      data: data ?? {},
    },
  };
}

const isoTime =
  /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(:\d\d)?(?:[.,](\d+))?(?:([Zz])|([+-]\d\d):?(\d\d)?)?$/;
const validTime = z.iso.datetime({ offset: true });
const longestTime = 64;

/**
 * A time as ISO 8601 with a zone, UTC if it has none; null when the value is no time, or ambiguous.
 * A number is unix seconds or milliseconds: from 2001 to 5138 it cannot be both.
 */
export function readTime(value: unknown): string | null {
  if (typeof value === "number") return epochTime(value);
  if (typeof value !== "string" || value.length > longestTime) return null;
  const text = value.trim();
  if (/^\d{10,14}(\.\d+)?$/.test(text)) return epochTime(Number(text));
  const parts = isoTime.exec(text);
  if (parts === null) return null;
  const [, date, minutes, seconds = ":00", fraction, , hours, rest = "00"] = parts;
  const time = `${date}T${minutes}${seconds}${fraction === undefined ? "" : `.${fraction}`}${hours === undefined ? "Z" : `${hours}:${rest}`}`;
  return validTime.safeParse(time).success ? time : null;
}

function epochTime(value: number): string | null {
  if (value >= 1e9 && value < 1e11) return new Date(value * 1000).toISOString();
  if (value >= 1e12 && value < 1e14) return new Date(value).toISOString();
  return null;
}

/** When the service made the event; `receivedAt` when the envelope has no time. */
export function createdAtOf(
  { createdAt }: Pick<Envelope, "createdAt">,
  receivedAt: number,
): number {
  const at = createdAt === null ? Number.NaN : Date.parse(createdAt);
  return Number.isNaN(at) ? receivedAt : at;
}

const usualEvent = /^[a-z._-]{1,64}$/;
const usualTime =
  /^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|1\d|2[0-8])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{3}Z$/;

/**
 * True for envelopes as the service's document shows them, in a tenth of the time of the schema,
 * which decides on all others.
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

/**
 * True for the envelope that the service sends instead of data over 256 KB
 * (messaging-service-api.md, "Events", 3).
 */
export function isTruncated(envelope: Pick<Envelope, "data">): boolean {
  return envelope.data["truncated"] === true;
}

/** Envelopes of other senders, by keys that they have: with a text, that value; with true, any. */
const envelopes: readonly (readonly [
  name: string,
  keys: Readonly<Record<string, string | true>>,
])[] = [
  // 360dialog and Gupshup v3 pass on the same one.
  ["Meta's Cloud API", { object: "whatsapp_business_account", entry: true }],
  ["Meta's Graph API", { object: true, entry: true }],
  ["Stripe", { object: "event", type: true }],
  ["PayPal", { event_type: true, resource_type: true }],
  ["AWS SNS", { Type: true, TopicArn: true, MessageId: true }],
  ["Mailgun", { signature: true, "event-data": true }],
  ["Adyen", { live: true, notificationItems: true }],
  ["Trello", { action: true, model: true }],
  ["GitHub", { repository: true, sender: true }],
  ["Shopify", { admin_graphql_api_id: true }],
  ["Slack", { type: "event_callback", team_id: true }],
  ["Telegram", { update_id: true }],
  ["CloudEvents", { specversion: true, source: true, type: true }],
  ["Vonage", { message_uuid: true, channel: true }],
  ["Sinch", { app_id: true, project_id: true }],
  ["YCloud", { apiVersion: true, createTime: true, type: true }],
  ["Evolution API", { event: true, instance: true, data: true }],
  ["WAHA", { event: true, session: true, payload: true }],
  ["Chatwoot", { event: true, account: true, inbox: true }],
  ["Standard Webhooks", { type: true, timestamp: true, data: true }],
];

export function otherEnvelope(value: unknown): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const body = value as Readonly<Record<string, unknown>>;
  return envelopes.find(([, keys]) =>
    Object.entries(keys).every(
      ([key, wanted]) => Object.hasOwn(body, key) && (wanted === true || body[key] === wanted),
    ),
  )?.[0];
}

function otherForm(text: string): string | undefined {
  if (!/^[\w.~%+*-]+=[^\s{}<>]*$/.test(text)) return undefined;
  return /(?:^|&)AccountSid=/.test(text) ? "a form of Twilio's" : "a form";
}
