import { z } from "zod";
import {
  type AttemptError,
  type AttemptResult,
  keptResponseBytes,
  type UrlResult,
} from "../../model/delivery.ts";
import type { KeptHeaders } from "../../model/event.ts";
import type { DeliveryId } from "../../model/ids.ts";
import type { Redactor } from "../../model/redact.ts";
import { type Secret, secretSchema } from "../../model/secret.ts";
import { createHmacKey, decodeKey, type HmacKey } from "../../model/signature.ts";
import { durationSchema, rateSchema } from "../../model/units.ts";

export interface OutgoingDelivery {
  /** The same over all attempts and replays. */
  readonly id: DeliveryId;
  readonly event: string;
  readonly eventId: string | null;
  readonly attempt: number;
  readonly replays: number;
  readonly body: Buffer;
  readonly contentType: string;
  /** Of an automation's request that had one. `body` is as received, compressed or not. */
  readonly contentEncoding: string | null;
  readonly passHeaders: KeptHeaders;
  /** Absent while traces are off. */
  readonly traceparent?: string;
}

export interface AttemptOutcome<Result extends AttemptResult = AttemptResult> {
  readonly result: Result;
  readonly tookMs: number;
  /** The first 4 KiB of the answer's body, or the text of the error. */
  readonly response: Buffer | null;
  readonly responseType?: string | null;
  /** `response` is as received, compressed or not. */
  readonly responseEncoding?: string | null;
}

export interface Destination<Result extends AttemptResult = AttemptResult> {
  /** Never rejects. `maySend` is called right before bytes leave; false aborts the attempt. */
  send(delivery: OutgoingDelivery, maySend?: () => boolean): Promise<AttemptOutcome<Result>>;
  /** Takes no more attempts, and closes once those in flight have ended. */
  retire(): Promise<void>;
  /** Attempts in flight end as `aborted`. */
  close(): Promise<void>;
}

export function failedAttempt(
  error: AttemptError,
  text: string,
  tookMs: number,
): AttemptOutcome<UrlResult> {
  return { result: { kind: "failed", error }, tookMs, response: Buffer.from(text) };
}

export const abortedAttempt = (tookMs = 0): AttemptOutcome<UrlResult> =>
  failedAttempt("aborted", "the relay was shutting down", tookMs);

export const retrySchema = z.strictObject({
  schedule: z
    .array(durationSchema)
    .min(1)
    .prefault(["0s", "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"])
    .describe("Wait before each attempt. After the last one, the delivery is dead."),
  jitter: z
    .number()
    .min(0)
    .max(1)
    .default(0.1)
    .describe("Each wait varies by up to this share of itself, up or down."),
});
export type RetrySettings = z.infer<typeof retrySchema>;

const signingSecretSchema = secretSchema.refine(
  (secret) => isSigningSecret(secret),
  "is not base64 after whsec_",
);

function isSigningSecret(secret: Secret): boolean {
  const text = secret.reveal();
  try {
    return !text.startsWith("whsec_") || decodeKey(text, "whsec").length > 0;
  } catch {
    return false;
  }
}

/** A URL may be down for good, while a recovered Redis should not wait long. */
export function breakerSchema(longest: string) {
  return z.strictObject({
    failures: z
      .number()
      .int()
      .min(1)
      .default(10)
      .describe(
        "Failures in a row that open it. Of the 4xx answers, only 408 and 429 without Retry-After are failures; others neither trip nor reset it.",
      ),
    pause: durationSchema
      .prefault("5s")
      .describe("How long it stays open, doubled at each failed probe up to longest."),
    longest: durationSchema.prefault(longest).describe("Longest time that it stays open."),
  });
}

export const timeoutSchema = durationSchema.refine(
  (ms) => ms >= 100 && ms <= 300_000,
  "must be from 100ms to 5m",
);

export const commonSchema = z.strictObject({
  secret: signingSecretSchema
    .optional()
    .describe(
      "Signs as Standard Webhooks does: whsec_ and base64, or plain text. Libraries such as svix accept only the first form.",
    ),
  secrets: z
    .array(signingSecretSchema)
    .min(1)
    .max(5)
    .optional()
    .describe(
      "Instead of secret, for rotation: up to 5. The header carries one signature per secret, in this order.",
    ),
  passSignature: z
    .boolean()
    .default(false)
    .describe("Passes the original signature headers on. They verify with payload original only."),
  concurrency: z
    .number()
    .int()
    .min(1)
    .max(1000)
    .default(16)
    .describe("Deliveries in flight at once."),
  rate: rateSchema
    .optional()
    .describe("Most attempts per time. Default: as fast as concurrency allows."),
  order: z
    .enum(["message", "none"])
    .default("message")
    .describe("message: deliveries of one message (or run) go out in order. none: in any order."),
  retry: retrySchema.prefault({}).describe("When failed attempts are repeated."),
  breaker: breakerSchema("5m")
    .prefault({})
    .describe("When attempts pause because the destination keeps failing."),
});
export type CommonSettings = z.infer<typeof commonSchema>;

/** In the order of their signatures. */
export function signingSecrets({
  secret,
  secrets = [],
}: Pick<CommonSettings, "secret" | "secrets">): readonly Secret[] {
  return secret === undefined ? secrets : [secret, ...secrets];
}

/** Of the connection and the body, and of the relay. */
const own =
  "host|content-type|content-encoding|content-length|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect|x-wamid-relay-.*";
export const reservedHeader = new RegExp(`^(${own}|webhook-.*|x-hub-signature-256)$`, "i");
const notPassed = new RegExp(`^(${own}|webhook-attempt|webhook-replay)$`);
const ours = ["webhook-id", "webhook-timestamp", "webhook-signature"];

interface HeaderSettings extends Pick<CommonSettings, "secret" | "secrets"> {
  readonly headers: Readonly<Record<string, Secret>>;
  readonly signature?: { readonly preset: "meta"; readonly secret: Secret } | undefined;
}

export function fixedHeaders(
  settings: Pick<HeaderSettings, "headers">,
  version: string,
): Map<string, string> {
  const fixed = new Map(
    Object.entries(settings.headers).map(([name, value]) => [name.toLowerCase(), value.reveal()]),
  );
  if (!fixed.has("user-agent")) fixed.set("user-agent", `wamid-relay/${version}`);
  return fixed;
}

export function createDeliveryHeaders(settings: HeaderSettings, version: string) {
  const fixed = fixedHeaders(settings, version);
  const fixedList = [...fixed].flat();
  const keys = signingSecrets(settings).map(signingKey);
  const { signature } = settings;
  const metaKey =
    signature && createHmacKey("sha256", decodeKey(signature.secret.reveal(), "utf8"));

  /** As undici takes them: name, value, name, value. `now`: unix ms. */
  return (delivery: OutgoingDelivery, now: number): string[] => {
    const timestamp = String(Math.floor(now / 1000));
    const headers = [...fixedList, "content-type", delivery.contentType];
    if (delivery.contentEncoding !== null)
      headers.push("content-encoding", delivery.contentEncoding);
    headers.push(
      "webhook-attempt",
      String(delivery.attempt),
      "x-wamid-relay-event",
      eventHeader(delivery.event),
    );
    if (delivery.replays > 0) headers.push("webhook-replay", "true");
    if (delivery.traceparent !== undefined && !fixed.has("traceparent"))
      headers.push("traceparent", delivery.traceparent);
    let passed: Set<string> | null = null;
    for (const name of Object.keys(delivery.passHeaders)) {
      const value = delivery.passHeaders[name];
      // Headers from the settings win, and so does the relay's signature, which needs its own id
      // and timestamp.
      if (
        value === undefined ||
        notPassed.test(name) ||
        fixed.has(name) ||
        (keys.length > 0 && ours.includes(name))
      )
        continue;
      headers.push(name, value);
      passed ??= new Set();
      passed.add(name);
    }
    // Without a secret here, an original Standard Webhooks signature keeps the id and timestamp it
    // covers.
    if (passed === null || !passed.has("webhook-id")) headers.push("webhook-id", delivery.id);
    if (passed === null || !passed.has("webhook-timestamp"))
      headers.push("webhook-timestamp", timestamp);
    if (keys.length > 0)
      headers.push("webhook-signature", signWebhook(keys, delivery.id, timestamp, delivery.body));
    if (metaKey !== undefined)
      headers.push(
        "x-hub-signature-256",
        `sha256=${metaKey.digest([delivery.body]).toString("hex")}`,
      );
    return headers;
  };
}

const plain = /^[\x21-\x24\x26-\x7e]+$/;

/** Percent-encoded unless it is visible ASCII without `%`. */
export function eventHeader(event: string): string {
  return plain.test(event) ? event : encodeURIComponent(event.toWellFormed());
}

/** The relay's headers win over the original ones. */
export function createSignatureHeaders(settings: Pick<CommonSettings, "secret" | "secrets">) {
  const keys = signingSecrets(settings).map(signingKey);
  /** Null: none. */
  return (
    { id, body, passHeaders }: OutgoingDelivery,
    now: number,
  ): Readonly<Record<string, string>> | null => {
    if (keys.length === 0) return Object.keys(passHeaders).length === 0 ? null : passHeaders;
    const timestamp = String(Math.floor(now / 1000));
    return {
      ...passHeaders,
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": signWebhook(keys, id, timestamp, body),
    };
  };
}

const prefix = "whsec_";

/** Throws a RangeError on bad base64. */
function signingKey(secret: Secret): HmacKey {
  const text = secret.reveal();
  return createHmacKey("sha256", decodeKey(text, text.startsWith(prefix) ? "whsec" : "utf8"));
}

/**
 * Standard Webhooks 1.0: `v1,` and the base64 HMAC-SHA256 over `{id}.{timestamp}.{body}` for each
 * key.
 */
function signWebhook(
  keys: readonly HmacKey[],
  id: string,
  timestamp: string,
  body: Buffer,
): string {
  return keys
    .map((key) => `v1,${key.digest([`${id}.${timestamp}.`, body]).toString("base64")}`)
    .join(" ");
}

/** A destination that echoes its request would put secrets into the store and the log. */
export function redactAnswers(
  destination: Destination,
  redactor: Pick<Redactor, "bytes">,
): Destination {
  return {
    ...destination,
    send: (delivery, maySend) =>
      destination
        .send(delivery, maySend)
        .then((outcome) => redactAnswer(outcome, delivery, redactor)),
  };
}

export function redactAnswer<Outcome extends AttemptOutcome>(
  outcome: Outcome,
  { passHeaders }: Pick<OutgoingDelivery, "passHeaders">,
  redactor: Pick<Redactor, "bytes">,
): Outcome {
  if (outcome.response === null) return outcome;
  const response = redactor.bytes(outcome.response, signaturesIn(passHeaders));
  // The mark may be longer than the secret.
  return response === outcome.response
    ? outcome
    : { ...outcome, response: response.subarray(0, keptResponseBytes) };
}

/** `webhook-id` and the timestamp are not secret by themselves. */
function signaturesIn(headers: OutgoingDelivery["passHeaders"]): string[] {
  const found: string[] = [];
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined && name.includes("signature")) found.push(value);
  }
  return found;
}
