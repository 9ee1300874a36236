import { z } from "zod";
import { Secret, secretSchema } from "../event/secret.ts";
import { decodeKey } from "../event/signature-bytes.ts";
import { durationSchema, rateSchema } from "../event/units.ts";

/** `original`: the very bytes received; `enriched`: the same with a `relay` object added. */
export const payloadSchema = z.enum(["original", "enriched"]);
export type Payload = z.infer<typeof payloadSchema>;

export const retrySchema = z.strictObject({
  /** Wait before each attempt; as many attempts as entries (DESIGN.md, "deliver"). */
  schedule: z.array(durationSchema).min(1).prefault(["0s", "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"]),
  /** Each wait is spread by up to this share of itself, up or down. */
  jitter: z.number().min(0).max(1).default(0.1),
});
export type RetrySettings = z.infer<typeof retrySchema>;

const reservedHeader =
  /^(host|content-length|content-type|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect|webhook-.*|x-wamid-relay-.*)$/i;
/** Values are secrets, because `authorization` is what people put here: nothing of them is printed. */
const headersSchema = z.record(
  z
    .string()
    .regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/, "is not a header name")
    .refine((name) => !reservedHeader.test(name), "is set by the relay itself"),
  z
    .string()
    .regex(/^[\t\x20-\x7e\x80-\xff]*$/, "is not a header value")
    .transform((value) => new Secret(value)),
);

function isSigningSecret(secret: Secret): boolean {
  const text = secret.reveal();
  try {
    return !text.startsWith("whsec_") || decodeKey(text, "whsec").length > 0;
  } catch {
    return false;
  }
}

function hasCredentials(url: string): boolean {
  const parsed = URL.parse(url);
  return parsed !== null && (parsed.username !== "" || parsed.password !== "");
}

/** A destination that is a URL. */
export const urlDestinationSchema = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, error: "is not an http or https URL" })
    .refine((text) => !hasCredentials(text), "holds a user or password; put them into headers (authorization)"),
  /** Signs in the Standard Webhooks way; `whsec_…` (base64 after it) or plain text. */
  secret: secretSchema.refine((secret) => isSigningSecret(secret), "is not base64 after whsec_").optional(),
  headers: headersSchema.default({}),
  /** Pass the original signature headers through (bytes must be `payload: original` to verify). */
  passSignature: z.boolean().default(false),
  /** For the whole exchange, from connecting to the last byte read. */
  timeout: durationSchema.refine((ms) => ms >= 100 && ms <= 300_000, "must be from 100ms to 5m").prefault("15s"),
  concurrency: z.number().int().min(1).max(1000).default(16),
  /** Attempts per time; none: as fast as `concurrency` allows. */
  rate: rateSchema.optional(),
  /** `message`: deliveries of one message (or run) go out one after the other; `none`: in any order. */
  order: z.enum(["message", "none"]).default("message"),
  /** Loopback, private and other non-public addresses only when true. */
  allowPrivate: z.boolean().default(false),
  retry: retrySchema.prefault({}),
  breaker: z
    .strictObject({
      /** Failures one after the other that open it. 4xx answers (but 408 and 429) do not count: somebody is at home. */
      failures: z.number().int().min(1).default(10),
      /** Stays open this long, doubled at each failed probe up to `longest`. */
      pause: durationSchema.prefault("5s"),
      longest: durationSchema.prefault("5m"),
    })
    .prefault({}),
});
export type UrlDestinationSettings = z.infer<typeof urlDestinationSchema>;
