import { z } from "zod";
import { readRedisUrl, redisUrlSchema } from "../event/redis-url.ts";
import { durationSchema } from "../event/units.ts";
import { breakerSchema, lineSchema, timeoutSchema } from "./line-settings.ts";

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
export const jobOptionsSchema = z.strictObject({
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
export const queueDestinationSchema = redisLineSchema.extend({
  queue: queueName,
  /** BullMQ's own prefix of keys, as the workers have it. */
  prefix: z.string().min(1).max(128).default("bull"),
  /** Not given: the event kind. */
  jobName: z.string().min(1).max(256).optional(),
  jobOptions: jobOptionsSchema.default({}),
});
export type QueueDestinationSettings = z.infer<typeof queueDestinationSchema>;

/** A destination that is a Redis stream: each delivery becomes an entry. */
export const streamDestinationSchema = redisLineSchema.extend({
  /** The stream's key. */
  stream: z.string().min(1).max(512),
  /** Entries kept, at least; Redis trims by whole nodes, so there may be some hundred more. None: it grows for ever. */
  maxLength: z.number().int().min(1).optional(),
});
export type StreamDestinationSettings = z.infer<typeof streamDestinationSchema>;
