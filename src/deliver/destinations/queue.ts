import { isUtf8 } from "node:buffer";
import type { JobsOptions, Queue } from "bullmq";
import type { JobOptions, QueueDestinationSettings } from "../settings.ts";
import { createSignatureHeaders } from "./delivery-headers.ts";
import type { Destination, OutgoingDelivery } from "./destination.ts";
import { createRedisAttempts, type RedisLink } from "./redis-link.ts";

/** A body as text that gives the same bytes again. */
interface BodyText {
  readonly body: string;
  readonly encoding: "utf8" | "base64";
}

/** The bytes as they are, as text where they are UTF-8: never parsed, because writing JSON anew changes big numbers and escapes. */
function bodyText(body: Buffer): BodyText {
  return isUtf8(body) ? { body: body.toString("utf8"), encoding: "utf8" } : { body: body.toString("base64"), encoding: "base64" };
}

/** The `data` of a job (docs/queues.md). */
interface JobData extends BodyText {
  /** The same over all attempts and replays: workers dedupe by it. */
  readonly deliveryId: string;
  /** Event kind. */
  readonly event: string;
  readonly eventId: string | null;
  /** The relay's attempt to add the job, 1 for the first. */
  readonly attempt: number;
  readonly replay: boolean;
  readonly contentType: string;
  /** Not given: the request said none. */
  readonly contentEncoding?: string;
  /** For verifying a signature; not given: there is none. */
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * A destination that is a queue of BullMQ: each delivery is one job. A job's id is made from the delivery's, so that
 * an attempt whose answer got lost adds nothing while the job exists; that deliveries are planned once does not rest on it.
 */
export function createQueueDestination(settings: QueueDestinationSettings, link: RedisLink, clock: () => number): Destination {
  const attempts = createRedisAttempts(link, settings.timeout);
  const headersOf = createSignatureHeaders(settings);
  const options = jobsOptions(settings.jobOptions);
  const opening = openQueue(settings, link);
  // Who sends is told; at a shutdown before the first delivery nobody asks.
  opening.catch(() => {});

  return {
    send: (delivery, signal) =>
      attempts.run(signal, async () => {
        const queue = await opening;
        const data = jobData(delivery, headersOf(delivery, clock()));
        await queue.add(settings.jobName ?? delivery.event, data, { ...options, jobId: jobId(delivery) });
        return null;
      }),
    async close() {
      attempts.close();
      const queue = await opening.catch(() => null);
      await queue?.close();
      link.close();
    },
  };
}

/** Legal for BullMQ: no integer and without a colon. A replay is another job: that of before may be there yet, done or failed. */
function jobId({ id, replays }: Pick<OutgoingDelivery, "id" | "replays">): string {
  return replays === 0 ? id : `${id}_r${replays}`;
}

function jobData(delivery: OutgoingDelivery, headers: Readonly<Record<string, string>> | null): JobData {
  return {
    deliveryId: delivery.id,
    event: delivery.event,
    eventId: delivery.eventId,
    attempt: delivery.attempt,
    replay: delivery.replays > 0,
    contentType: delivery.contentType,
    ...(delivery.contentEncoding === null ? {} : { contentEncoding: delivery.contentEncoding }),
    ...bodyText(delivery.body),
    ...(headers === null ? {} : { headers }),
  };
}

async function openQueue({ queue: name, prefix }: QueueDestinationSettings, link: RedisLink): Promise<Queue<JobData, unknown, string>> {
  const [{ Queue }, connection] = await Promise.all([import("bullmq"), link.client()]);
  const queue = new Queue<JobData, unknown, string>(name, { connection, prefix, skipVersionCheck: true, skipWaitingForReady: true });
  // Each attempt is told by itself what went wrong.
  queue.on("error", () => {});
  return queue;
}

/** In BullMQ's units: ages are seconds. */
function jobsOptions({ removeOnComplete, removeOnFail, ...rest }: JobOptions): JobsOptions {
  return withoutUndefined({ ...rest, removeOnComplete: keep(removeOnComplete), removeOnFail: keep(removeOnFail) });
}

function keep(jobs: JobOptions["removeOnComplete"]): JobsOptions["removeOnComplete"] {
  if (typeof jobs !== "object") return jobs;
  const { age, count } = jobs;
  return withoutUndefined({ age: age === undefined ? undefined : Math.ceil(age / 1000), count }) as JobsOptions["removeOnComplete"];
}

function withoutUndefined(object: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined));
}
