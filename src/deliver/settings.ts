import { createHash } from "node:crypto";
import { z } from "zod";
import { readRedisUrl, redisUrlSchema } from "../event/redis-url.ts";
import { Secret, secretSchema } from "../event/secret.ts";
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
function breakerSchema(longest: string) {
  return z.strictObject({
    /** Failures one after the other that open it. 4xx answers (but 408 and 429) do not count: somebody is at home. */
    failures: z.number().int().min(1).default(10),
    /** Stays open this long, doubled at each failed probe up to `longest`. */
    pause: durationSchema.prefault("5s"),
    longest: durationSchema.prefault(longest),
  });
}

/** How long one attempt may take. */
const timeoutSchema = durationSchema.refine((ms) => ms >= 100 && ms <= 300_000, "must be from 100ms to 5m");

/** What every kind of destination has. */
const lineSchema = z.strictObject({
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

/** What a queue and a stream have in common. */
const redisLineSchema = lineSchema.extend({
  /** Private addresses need no leave here: whoever writes this file chose the Redis, and no event can change it. */
  redis: redisUrlSchema.refine((url) => (readRedisUrl(url.reveal())?.hosts.length ?? 1) === 1, "names several hosts; a destination is one"),
  /** For the whole attempt. One that was cut off may have been made all the same. */
  timeout: timeoutSchema.prefault("5s"),
  /** More than for a URL: they share one connection, and what is under way at once goes out in one write. */
  concurrency: z.number().int().min(1).max(1000).default(64),
  breaker: breakerSchema("30s").prefault({}),
});

/** How many jobs that are over stay in Redis: none, all, the last so many, or by age and count. */
const keepSchema = z.union([
  z.boolean(),
  z.number().int().min(0),
  z.strictObject({ age: durationSchema.optional(), count: z.number().int().min(0).optional() }),
]);

/** Options of BullMQ's jobs. `jobId` is not one: it is made from the delivery's id. */
const jobOptionsSchema = z.strictObject({
  /** Times that a worker tries the job; nothing to do with the relay's own attempts to add it. */
  attempts: z.number().int().min(1).optional(),
  backoff: z.strictObject({ type: z.enum(["fixed", "exponential"]), delay: durationSchema }).optional(),
  /** 1 goes first; 0, BullMQ's default, before all that have one. */
  priority: z.number().int().min(0).max(2_097_152).optional(),
  delay: durationSchema.optional(),
  lifo: z.boolean().optional(),
  removeOnComplete: keepSchema.optional(),
  removeOnFail: keepSchema.optional(),
});
export type JobOptions = z.infer<typeof jobOptionsSchema>;

/** BullMQ parts its keys with colons. */
const queueName = z.string().regex(/^[^:\s]{1,128}$/, "is not the name of a queue (no colon, no space, at most 128 characters)");

/** A destination that is a queue of BullMQ: each delivery becomes a job. */
const queueDestinationSchema = redisLineSchema.extend({
  queue: queueName,
  /** BullMQ's own prefix of keys, as the workers have it. */
  prefix: z.string().min(1).max(128).default("bull"),
  /** Not given: the event kind. */
  jobName: z.string().min(1).max(256).optional(),
  jobOptions: jobOptionsSchema.default({}),
});
export type QueueDestinationSettings = z.infer<typeof queueDestinationSchema>;

/** A destination that is a Redis stream: each delivery becomes an entry. */
const streamDestinationSchema = redisLineSchema.extend({
  /** The stream's key. */
  stream: z.string().min(1).max(512),
  /** Entries kept, at least; Redis trims by whole nodes, so there may be some hundred more. None: it grows for ever. */
  maxLength: z.number().int().min(1).optional(),
});
export type StreamDestinationSettings = z.infer<typeof streamDestinationSchema>;

/** `original`: the very bytes received; `enriched`: the same with a `relay` object added. */
export const payloadSchema = z.enum(["original", "enriched"]);
export type Payload = z.infer<typeof payloadSchema>;

const reservedHeader =
  /^(host|content-length|content-type|content-encoding|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect|webhook-.*|x-wamid-relay-.*)$/i;
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

function hasCredentials(url: string): boolean {
  const parsed = URL.parse(url);
  return parsed !== null && (parsed.username !== "" || parsed.password !== "");
}

/** A destination that is a URL. */
export const urlDestinationSchema = lineSchema.extend({
  url: z
    .url({ protocol: /^https?$/, error: "is not an http or https URL" })
    .refine((text) => !hasCredentials(text), "holds a user or password; put them into headers (authorization)"),
  headers: headersSchema.default({}),
  /** For the whole exchange, from connecting to the last byte read. */
  timeout: timeoutSchema.prefault("15s"),
  /** Longest `Retry-After` that is honored; a longer one counts as this. `0s`: none is honored. */
  maxRetryAfter: durationSchema.refine((ms) => ms <= 86_400_000, "must be at most 24h").prefault("1h"),
  /** Loopback, private and other non-public addresses only when true. */
  allowPrivate: z.boolean().default(false),
});
export type UrlDestinationSettings = z.infer<typeof urlDestinationSchema>;

/** Where a route's deliveries go. The first key of each kind tells it: see {@link destinationKeys}. */
export const destinationSchema = z.union([urlDestinationSchema, queueDestinationSchema, streamDestinationSchema]);
export type DestinationSettings = z.infer<typeof destinationSchema>;

/** The key that each kind of destination has and no other, in the order of {@link destinationSchema}. */
export const destinationKeys = ["url", "queue", "stream"] as const;

/** A route as its lane sees it. */
export interface LaneSettings {
  readonly name: string;
  readonly payload: Payload;
  readonly to: DestinationSettings;
}

/** Settings as text, to see whether they changed; secrets count by their fingerprints. */
export function describeLane(settings: LaneSettings): string {
  return JSON.stringify(settings, function (this: Record<string, unknown>, key, value: unknown) {
    // `value` has gone through toJSON, which hides a secret; what stands in the object has not.
    const raw = this[key];
    return raw instanceof Secret ? raw.fingerprint() : value;
  });
}

/**
 * What the breaker of a route is called. The name depends on the route's settings, so that changed settings begin with a
 * closed breaker and without a pause.
 */
export function breakerName(settings: LaneSettings): string {
  const fingerprint = createHash("sha256").update(describeLane(settings)).digest("hex").slice(0, 12);
  return `${settings.name}:${fingerprint}`;
}
