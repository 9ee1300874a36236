import { createHash } from "node:crypto";
import { z } from "zod";
import { type Shard, wholeRoute } from "../model/route-lease.ts";
import { Secret, secretSchema } from "../model/secret.ts";
import { decodeKey } from "../model/signature.ts";
import { durationSchema, rateSchema } from "../model/units.ts";
import { redisUrlSchema } from "../net/redis.ts";
import { tlsSchema } from "../net/tls.ts";
import { isUnixSocket, unixSocketFault } from "../net/unix-socket.ts";
import { type RejectionPreset, rejectionPresets } from "./destinations/rejections.ts";

export const retrySchema = z.strictObject({
  schedule: z
    .array(durationSchema)
    .min(1)
    .prefault(["0s", "5s", "5m", "30m", "2h", "5h", "10h", "14h", "20h", "24h"])
    .describe("Wait before each attempt. After the last one, the delivery is dead."),
  jitter: z.number().min(0).max(1).default(0.1).describe("Each wait varies by up to this share of itself, up or down."),
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
    failures: z
      .number()
      .int()
      .min(1)
      .default(10)
      .describe("Failures in a row that open it. 4xx answers other than 408 and 429 neither trip nor reset it."),
    pause: durationSchema.prefault("5s").describe("How long it stays open, doubled at each failed probe up to longest."),
    longest: durationSchema.prefault(longest).describe("Longest time that it stays open."),
  });
}

/** How long one attempt may take. */
const timeoutSchema = durationSchema.refine((ms) => ms >= 100 && ms <= 300_000, "must be from 100ms to 5m");

/** Settings that every kind of destination has. */
const commonSchema = z.strictObject({
  secret: signingSecretSchema
    .optional()
    .describe("Signs as Standard Webhooks does: whsec_ and base64, or plain text. Libraries such as svix accept only the first form."),
  secrets: z
    .array(signingSecretSchema)
    .min(1)
    .max(5)
    .optional()
    .describe("Instead of secret, for rotation: up to 5. The header carries one signature per secret, in this order."),
  passSignature: z.boolean().default(false).describe("Passes the original signature headers on. They verify with payload original only."),
  concurrency: z.number().int().min(1).max(1000).default(16).describe("Deliveries in flight at once."),
  rate: rateSchema.optional().describe("Most attempts per time. Default: as fast as concurrency allows."),
  order: z
    .enum(["message", "none"])
    .default("message")
    .describe("message: deliveries of one message (or run) go out in order. none: in any order."),
  retry: retrySchema.prefault({}).describe("When failed attempts are repeated."),
  breaker: breakerSchema("5m").prefault({}).describe("When attempts pause because the destination keeps failing."),
});
export type CommonSettings = z.infer<typeof commonSchema>;

/** The secrets that sign, in the order of their signatures; none: the relay does not sign. */
export function signingSecrets({ secret, secrets = [] }: Pick<CommonSettings, "secret" | "secrets">): readonly Secret[] {
  return secret === undefined ? secrets : [secret, ...secrets];
}

/** Settings that queues and streams have in common. */
const redisSchema = commonSchema.extend({
  redis: redisUrlSchema.describe("The Redis: redis://user:password@host:port/db, or rediss:// with TLS. Its address may be private."),
  timeout: timeoutSchema
    .prefault("5s")
    .describe("Longest time of one attempt, 100ms to 5m. An attempt that timed out may still have succeeded."),
  concurrency: z.number().int().min(1).max(1000).default(64).describe("Deliveries in flight at once."),
  tls: tlsSchema.optional().describe("Authorities and client certificate, for https and rediss."),
  breaker: breakerSchema("30s").prefault({}).describe("When attempts pause because the destination keeps failing."),
});

/** How many finished jobs stay in Redis: none, all, the last so many, or by age and count. */
const keepSchema = z.union([
  z.boolean(),
  z.number().int().min(0),
  z.strictObject({
    age: durationSchema.optional().describe("Longest time that a job stays."),
    count: z.number().int().min(0).optional().describe("Most jobs that stay."),
  }),
]);

/** BullMQ's job options, without `jobId`, which comes from the delivery's id. */
const jobOptionsSchema = z.strictObject({
  attempts: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe("How often a worker tries the job. Independent of the relay's own attempts to add it."),
  backoff: z
    .strictObject({
      type: z.enum(["fixed", "exponential"]).describe("The same wait each time, or twice the last."),
      delay: durationSchema.describe("The wait, or the first of those that double."),
    })
    .optional()
    .describe("Wait between the worker's attempts."),
  priority: z.number().int().min(0).max(2_097_152).optional().describe("1 goes first, but after jobs with 0, BullMQ's default."),
  delay: durationSchema.optional().describe("How long after it was added a job may begin."),
  lifo: z.boolean().optional().describe("The newest job goes first, so order is lost."),
  removeOnComplete: keepSchema
    .optional()
    .describe("Which completed jobs stay in Redis: none (true), all (false), the last so many, or by age and count."),
  removeOnFail: keepSchema
    .optional()
    .describe("Which failed jobs stay in Redis: none (true), all (false), the last so many, or by age and count."),
});
export type JobOptions = z.infer<typeof jobOptionsSchema>;

/** BullMQ separates its keys with colons. */
const queueName = z.string().regex(/^[^:\s]{1,128}$/, "is not the name of a queue (no colon, no space, at most 128 characters)");

/** A destination that is a queue of BullMQ: each delivery becomes a job. */
const queueDestinationSchema = redisSchema.extend({
  queue: queueName.describe("Name of the BullMQ queue that gets a job for each delivery."),
  prefix: z.string().min(1).max(128).default("bull").describe("BullMQ's key prefix, the same as for the workers."),
  jobName: z.string().min(1).max(256).optional().describe("Name of the jobs. Default: the event kind."),
  jobOptions: jobOptionsSchema.prefault({}).describe("BullMQ's options of the jobs."),
});
export type QueueDestinationSettings = z.infer<typeof queueDestinationSchema>;

/** A destination that is a Redis stream: each delivery becomes an entry. */
const streamDestinationSchema = redisSchema.extend({
  stream: z.string().min(1).max(512).describe("Key of the Redis stream that gets an entry for each delivery."),
  maxLength: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe("Least number of entries kept. Redis trims whole nodes, so there may be some hundred more. Default: no limit."),
});
export type StreamDestinationSettings = z.infer<typeof streamDestinationSchema>;

/**
 * `original`: the bytes received; of a request with several events, a request with the event alone. `standard`: the relay's
 * envelope, which only differs for other formats. `enriched`: that with a `relay` object added.
 */
export const payloadSchema = z.enum(["original", "standard", "enriched"]);
export type Payload = z.infer<typeof payloadSchema>;

const reservedHeader =
  /^(host|content-length|content-type|content-encoding|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect|webhook-.*|x-wamid-relay-.*|x-hub-signature-256)$/i;
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

/** A destination that is a URL: of a route, or of a source with `mode: proxy`. */
export const urlDestinationSchema = commonSchema.extend({
  url: z
    .url({ protocol: /^https?$/, error: "is not an http or https URL" })
    .refine((text) => !isUnixSocket(text), unixSocketFault)
    .refine((text) => !hasCredentials(text), "holds a user or password; put them into headers (authorization)")
    .describe("Where deliveries are posted: an http or https URL without user and password."),
  headers: headersSchema.prefault({}).describe("Headers added to each request. Values are secrets and never printed."),
  timeout: timeoutSchema
    .prefault("15s")
    .describe("Longest time of one attempt, 100ms to 5m, from connecting to the last byte of the answer."),
  maxRetryAfter: durationSchema
    .refine((ms) => ms <= 86_400_000, "must be at most 24h")
    .prefault("1h")
    .describe("Longest Retry-After that the relay honors, at most 24h. A longer one counts as this. 0s: ignore all."),
  tls: tlsSchema.optional().describe("Authorities and client certificate, for https and rediss."),
  allowPrivate: z.boolean().default(false).describe("Allows loopback, private and other non-public addresses."),
});

const metaSignatureSchema = z.strictObject({
  preset: z.enum(["meta"]).describe("meta: X-Hub-Signature-256 over the body in ASCII, as Meta's Cloud API signs."),
  secret: secretSchema.describe("The secret that the destination has as the app secret."),
});

const failIfBodySchema = z
  .strictObject({
    preset: z
      .enum(Object.keys(rejectionPresets) as [RejectionPreset, ...RejectionPreset[]])
      .optional()
      .describe("An app whose texts the relay knows."),
    contains: z.array(z.string().min(1).max(256)).min(1).max(20).optional().describe("Texts, as they stand in the body."),
  })
  .refine(({ preset, contains }) => preset !== undefined || contains !== undefined, "must have preset or contains");

/** A route's destination that is a URL. It may be an app that expects what Meta's Cloud API sends. */
export const routeUrlSchema = urlDestinationSchema.extend({
  signature: metaSignatureSchema
    .optional()
    .describe("Instead of secret: signs as Meta's Cloud API does, for apps that take Meta's webhooks."),
  verifyToken: secretSchema
    .optional()
    .describe("The app's verify token, for Meta's handshake: doctor, the console and POST /v1/routes/:route/handshake perform it."),
  failIfBody: failIfBodySchema
    .optional()
    .describe(
      "Counts a 2xx answer as failed if the first 4 KiB of its body have one of these texts. For apps that answer 200 to what they drop.",
    ),
});
export type UrlDestinationSettings = z.infer<typeof routeUrlSchema>;

/** The kinds of destination, each under the key that only its settings have. destinations/create.ts makes them. */
export const destinationSchemas = { url: routeUrlSchema, queue: queueDestinationSchema, stream: streamDestinationSchema };
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
  /** How many workers may share the route. Default: 1. */
  readonly shards?: number;
  /** What a lane of it delivers. Default: all. */
  readonly shard?: Shard;
}

/** The share of the route's rate that a lane has, per second; undefined: there is no limit. */
export const rateOf = ({ to, shard = wholeRoute }: LaneSettings): number | undefined =>
  to.rate === undefined ? undefined : to.rate / shard.of;

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
 * and without a pause. Shards have a breaker each, and start with what one of them stored last.
 */
export function breakerName({ shard: _, ...ofRoute }: LaneSettings): string {
  const fingerprint = createHash("sha256").update(describeLane(ofRoute)).digest("hex").slice(0, 12);
  return `${ofRoute.name}:${fingerprint}`;
}
