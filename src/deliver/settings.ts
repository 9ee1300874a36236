import { createHash } from "node:crypto";
import { z } from "zod";
import { readRedisUrl, redisUrlSchema } from "../model/redis.ts";
import { Secret, secretSchema } from "../model/secret.ts";
import { decodeKey } from "../model/signature.ts";
import { durationSchema, rateSchema } from "../model/units.ts";

export const retrySchema = z.strictObject({
  /** Wait before each attempt. There are as many attempts as entries. */
  schedule: z.array(durationSchema).min(1).prefault(["0s", "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"]),
  /** Each wait varies by up to this share of itself, up or down. */
  jitter: z.number().min(0).max(1).default(0.1),
});
export type RetrySettings = z.infer<typeof retrySchema>;

const signingSecretSchema = secretSchema.refine((secret) => isSigningSecret(secret), "is not base64 after whsec_");

function isSigningSecret(secret: Secret): boolean {
  const text = secret.reveal();
  try {
    return !text.startsWith("whsec_") || decodeKey(text, "whsec").length > 0;
  } catch {
    return false;
  }
}

/** The default of `longest` depends on the kind: a URL may be down for good, while a recovered Redis should not wait long. */
function breakerSchema(longest: string) {
  return z.strictObject({
    /** Failures in a row that open it. 4xx answers other than 408 and 429 neither trip nor reset it. */
    failures: z.number().int().min(1).default(10),
    /** How long it stays open, doubled at each failed probe up to `longest`. */
    pause: durationSchema.prefault("5s"),
    longest: durationSchema.prefault(longest),
  });
}

/** How long one attempt may take. */
const timeoutSchema = durationSchema.refine((ms) => ms >= 100 && ms <= 300_000, "must be from 100ms to 5m");

/** Settings that every kind of destination has. */
const commonSchema = z.strictObject({
  /** Signs as Standard Webhooks does; `whsec_…` (base64 after it) or plain text. */
  secret: signingSecretSchema.optional(),
  /** Instead of `secret`, for rotation: one signature per secret. At most 5, because each adds 48 bytes to every request. */
  secrets: z.array(signingSecretSchema).min(1).max(5).optional(),
  /** Passes the original signature headers on. They verify with `payload: original` only. */
  passSignature: z.boolean().default(false),
  concurrency: z.number().int().min(1).max(1000).default(16),
  /** Attempts per time. Default: as fast as `concurrency` allows. */
  rate: rateSchema.optional(),
  /** `message`: deliveries of one message (or run) go out in order; `none`: in any order. */
  order: z.enum(["message", "none"]).default("message"),
  retry: retrySchema.prefault({}),
  breaker: breakerSchema("5m").prefault({}),
});
export type CommonSettings = z.infer<typeof commonSchema>;

/** The secrets that sign, in the order of their signatures; none: the relay does not sign. */
export function signingSecrets({ secret, secrets = [] }: Pick<CommonSettings, "secret" | "secrets">): readonly Secret[] {
  return secret === undefined ? secrets : [secret, ...secrets];
}

/** Settings that queues and streams have in common. */
const redisSchema = commonSchema.extend({
  /** Private addresses are allowed: the operator chose the Redis, and no event can change it. */
  redis: redisUrlSchema.refine((url) => (readRedisUrl(url.reveal())?.hosts.length ?? 1) === 1, "names several hosts; a destination is one"),
  /** For the whole attempt. An attempt that timed out may have succeeded all the same. */
  timeout: timeoutSchema.prefault("5s"),
  /** More than for a URL: attempts share one connection, and those in flight go out in one write. */
  concurrency: z.number().int().min(1).max(1000).default(64),
  breaker: breakerSchema("30s").prefault({}),
});

/** How many finished jobs stay in Redis: none, all, the last so many, or by age and count. */
const keepSchema = z.union([
  z.boolean(),
  z.number().int().min(0),
  z.strictObject({ age: durationSchema.optional(), count: z.number().int().min(0).optional() }),
]);

/** BullMQ's job options, without `jobId`, which comes from the delivery's id. */
const jobOptionsSchema = z.strictObject({
  /** How often a worker tries the job. Independent of the relay's own attempts to add it. */
  attempts: z.number().int().min(1).optional(),
  backoff: z.strictObject({ type: z.enum(["fixed", "exponential"]), delay: durationSchema }).optional(),
  /** 1 goes first, but after jobs with 0, BullMQ's default. */
  priority: z.number().int().min(0).max(2_097_152).optional(),
  delay: durationSchema.optional(),
  lifo: z.boolean().optional(),
  removeOnComplete: keepSchema.optional(),
  removeOnFail: keepSchema.optional(),
});
export type JobOptions = z.infer<typeof jobOptionsSchema>;

/** BullMQ separates its keys with colons. */
const queueName = z.string().regex(/^[^:\s]{1,128}$/, "is not the name of a queue (no colon, no space, at most 128 characters)");

/** A destination that is a queue of BullMQ: each delivery becomes a job. */
const queueDestinationSchema = redisSchema.extend({
  queue: queueName,
  /** BullMQ's key prefix, the same as for the workers. */
  prefix: z.string().min(1).max(128).default("bull"),
  /** Default: the event kind. */
  jobName: z.string().min(1).max(256).optional(),
  jobOptions: jobOptionsSchema.default({}),
});
export type QueueDestinationSettings = z.infer<typeof queueDestinationSchema>;

/** A destination that is a Redis stream: each delivery becomes an entry. */
const streamDestinationSchema = redisSchema.extend({
  /** The stream's key. */
  stream: z.string().min(1).max(512),
  /** Least number of entries kept. Redis trims whole nodes, so there may be some hundred more. Default: no limit. */
  maxLength: z.number().int().min(1).optional(),
});
export type StreamDestinationSettings = z.infer<typeof streamDestinationSchema>;

/** `original`: the bytes received; `enriched`: the same with a `relay` object added. */
export const payloadSchema = z.enum(["original", "enriched"]);
export type Payload = z.infer<typeof payloadSchema>;

const reservedHeader =
  /^(host|content-length|content-type|content-encoding|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect|webhook-.*|x-wamid-relay-.*)$/i;
/** Values are secrets and never printed, because people put `authorization` here. */
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
export const urlDestinationSchema = commonSchema.extend({
  url: z
    .url({ protocol: /^https?$/, error: "is not an http or https URL" })
    .refine((text) => !hasCredentials(text), "holds a user or password; put them into headers (authorization)"),
  headers: headersSchema.default({}),
  /** For the whole exchange, from connecting to the last byte of the answer. */
  timeout: timeoutSchema.prefault("15s"),
  /** Longest `Retry-After` that is honored; a longer one counts as this. `0s` ignores all. */
  maxRetryAfter: durationSchema.refine((ms) => ms <= 86_400_000, "must be at most 24h").prefault("1h"),
  /** Allows loopback, private and other non-public addresses. */
  allowPrivate: z.boolean().default(false),
});
export type UrlDestinationSettings = z.infer<typeof urlDestinationSchema>;

/** The kinds of destination, each under the key that only its settings have. destinations/create.ts makes them. */
export const destinationSchemas = { url: urlDestinationSchema, queue: queueDestinationSchema, stream: streamDestinationSchema };
export type DestinationKind = keyof typeof destinationSchemas;
export const destinationKeys = Object.keys(destinationSchemas) as DestinationKind[];

/** Where a route's deliveries go. */
export const destinationSchema = z.union(Object.values(destinationSchemas));
export type DestinationSettings = z.infer<typeof destinationSchema>;

export function kindOf(to: DestinationSettings): DestinationKind {
  return destinationKeys.find((key) => key in to) as DestinationKind;
}

/** The part of a route's settings that its lane uses. */
export interface LaneSettings {
  readonly name: string;
  readonly payload: Payload;
  readonly to: DestinationSettings;
}

/** Settings as text, for comparison. Secrets appear as fingerprints. */
export function describeLane(settings: LaneSettings): string {
  return JSON.stringify(settings, function (this: Record<string, unknown>, key, value: unknown) {
    // `value` has passed `toJSON`, which hides a secret. The object still has the secret itself.
    const raw = this[key];
    return raw instanceof Secret ? raw.fingerprint() : value;
  });
}

/**
 * The name of a route's breaker. It depends on the route's settings, so that changed settings start with a closed breaker
 * and without a pause.
 */
export function breakerName(settings: LaneSettings): string {
  const fingerprint = createHash("sha256").update(describeLane(settings)).digest("hex").slice(0, 12);
  return `${settings.name}:${fingerprint}`;
}
