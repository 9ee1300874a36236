import { isUtf8 } from "node:buffer";
import type { JobsOptions, Queue } from "bullmq";
import { z } from "zod";
import { durationSchema } from "../../model/units.ts";
import type { Destination, OutgoingDelivery } from "./destination.ts";
import { createRedisDestination, jobFields, type LinkTo, redisSchema } from "./redis.ts";

const keepSchema = z.union([
  z.boolean(),
  z.number().int().min(0),
  z.strictObject({
    age: durationSchema.optional().describe("Longest time that a job stays."),
    count: z.number().int().min(0).optional().describe("Most jobs that stay."),
  }),
]);

const jobOptionsSchema = z.strictObject({
  attempts: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe(
      "How often a worker tries the job. Independent of the relay's own attempts to add it.",
    ),
  backoff: z
    .strictObject({
      type: z
        .enum(["fixed", "exponential"])
        .describe("The same wait each time, or twice the last."),
      delay: durationSchema.describe("The wait, or the first of those that double."),
    })
    .optional()
    .describe("Wait between the worker's attempts."),
  priority: z
    .number()
    .int()
    .min(0)
    .max(2_097_152)
    .optional()
    .describe("1 goes first, but after jobs with 0, BullMQ's default."),
  delay: durationSchema.optional().describe("How long after it was added a job may begin."),
  lifo: z.boolean().optional().describe("The newest job goes first, so order is lost."),
  removeOnComplete: keepSchema
    .optional()
    .describe(
      "Which completed jobs stay in Redis: none (true), all (false), the last so many, or by age and count.",
    ),
  removeOnFail: keepSchema
    .optional()
    .describe(
      "Which failed jobs stay in Redis: none (true), all (false), the last so many, or by age and count.",
    ),
});
type JobOptions = z.infer<typeof jobOptionsSchema>;

const queueName = z
  .string()
  .regex(
    /^[^:\s]{1,128}$/,
    "is not the name of a queue (no colon, no space, at most 128 characters)",
  );

export const queueDestinationSchema = redisSchema.extend({
  queue: queueName.describe("Name of the BullMQ queue that gets a job for each delivery."),
  prefix: z
    .string()
    .min(1)
    .max(128)
    .default("bull")
    .describe("BullMQ's key prefix, the same as for the workers."),
  jobName: z
    .string()
    .min(1)
    .max(256)
    .optional()
    .describe("Name of the jobs. Default: the event kind."),
  jobOptions: jobOptionsSchema.prefault({}).describe("BullMQ's options of the jobs."),
});
type QueueDestinationSettings = z.infer<typeof queueDestinationSchema>;

/**
 * A job's id comes from the delivery's, so that an attempt whose answer got lost adds no second
 * job.
 */
export function createQueueDestination(
  settings: QueueDestinationSettings,
  clock: () => number,
  linkTo: LinkTo,
): Destination {
  const link = linkTo(settings.redis, settings.tls);
  const options = jobsOptions(settings.jobOptions);
  const opening = openQueue(settings, link);
  // `send` reports the error. At a shutdown before the first delivery there is no caller.
  opening.catch(() => {});
  async function add(
    _redis: unknown,
    delivery: OutgoingDelivery,
    headers: Readonly<Record<string, string>> | null,
  ): Promise<null> {
    const queue = await opening;
    const jobOptions = { ...options, ...telemetry(delivery), jobId: jobId(delivery) };
    await queue.add(settings.jobName ?? delivery.event, jobData(delivery, headers), jobOptions);
    return null;
  }
  return createRedisDestination(settings, clock, link, add, async () => {
    const queue = await opening.catch(() => null);
    await queue?.close();
  });
}

/** Where BullMQ's telemetry looks for the context. */
function telemetry({ traceparent }: OutgoingDelivery): Pick<JobsOptions, "telemetry"> {
  return traceparent === undefined
    ? {}
    : { telemetry: { metadata: JSON.stringify({ traceparent }) } };
}

/** No integer and no colon, for BullMQ. The job of a replay may exist beside the first. */
function jobId({ id, replays }: Pick<OutgoingDelivery, "id" | "replays">): string {
  return replays === 0 ? id : `${id}_r${replays}`;
}

type JobData = ReturnType<typeof jobData>;

function jobData(delivery: OutgoingDelivery, headers: Readonly<Record<string, string>> | null) {
  const { body } = delivery;
  const encoding = isUtf8(body) ? "utf8" : "base64";
  // Never parsed, because serializing JSON again changes big numbers and escapes.
  return {
    ...jobFields(delivery),
    body: body.toString(encoding),
    encoding,
    ...(headers === null ? {} : { headers }),
  };
}

async function openQueue(
  { queue: name, prefix }: QueueDestinationSettings,
  link: ReturnType<LinkTo>,
): Promise<Queue<JobData, unknown, string>> {
  const [{ Queue }, connection] = await Promise.all([import("bullmq"), link.client()]);
  const queue = new Queue<JobData, unknown, string>(name, {
    connection,
    prefix,
    skipVersionCheck: true,
    skipWaitingForReady: true,
  });
  // Each attempt reports its own error.
  queue.on("error", () => {});
  return queue;
}

/** BullMQ counts ages in seconds. */
function jobsOptions(given: JobOptions): JobsOptions {
  const options: Record<string, unknown> = { ...given };
  for (const name of ["removeOnComplete", "removeOnFail"] as const) {
    const jobs = given[name];
    if (typeof jobs === "object" && jobs.age !== undefined)
      options[name] = { ...jobs, age: Math.ceil(jobs.age / 1000) };
  }
  return options;
}
