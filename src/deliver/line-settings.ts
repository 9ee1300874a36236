import { z } from "zod";
import { type Secret, secretSchema } from "../event/secret.ts";
import { decodeKey } from "../event/signature-bytes.ts";
import { durationSchema, rateSchema } from "../event/units.ts";

export const retrySchema = z.strictObject({
  /** Wait before each attempt; as many attempts as entries (DESIGN.md, "deliver"). */
  schedule: z.array(durationSchema).min(1).prefault(["0s", "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"]),
  /** Each wait is spread by up to this share of itself, up or down. */
  jitter: z.number().min(0).max(1).default(0.1),
});
export type RetrySettings = z.infer<typeof retrySchema>;

function isSigningSecret(secret: Secret): boolean {
  const text = secret.reveal();
  try {
    return !text.startsWith("whsec_") || decodeKey(text, "whsec").length > 0;
  } catch {
    return false;
  }
}

/** `longest` by default: a URL may be down for good, while a Redis that is back should not wait for long. */
export function breakerSchema(longest: string) {
  return z.strictObject({
    /** Failures one after the other that open it. 4xx answers (but 408 and 429) do not count: somebody is at home. */
    failures: z.number().int().min(1).default(10),
    /** Stays open this long, doubled at each failed probe up to `longest`. */
    pause: durationSchema.prefault("5s"),
    longest: durationSchema.prefault(longest),
  });
}

/** How long one attempt may take. */
export const timeoutSchema = durationSchema.refine((ms) => ms >= 100 && ms <= 300_000, "must be from 100ms to 5m");

/** What every kind of destination has. */
export const lineSchema = z.strictObject({
  /** Signs in the Standard Webhooks way; `whsec_…` (base64 after it) or plain text. */
  secret: secretSchema.refine((secret) => isSigningSecret(secret), "is not base64 after whsec_").optional(),
  /** Pass the original signature headers through (bytes must be `payload: original` to verify). */
  passSignature: z.boolean().default(false),
  concurrency: z.number().int().min(1).max(1000).default(16),
  /** Attempts per time; none: as fast as `concurrency` allows. */
  rate: rateSchema.optional(),
  /** `message`: deliveries of one message (or run) go out one after the other; `none`: in any order. */
  order: z.enum(["message", "none"]).default("message"),
  retry: retrySchema.prefault({}),
  breaker: breakerSchema("5m").prefault({}),
});
/** What a lane needs to know of a destination, whatever its kind. */
export type LineSettings = z.infer<typeof lineSchema>;
