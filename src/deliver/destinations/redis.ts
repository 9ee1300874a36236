import type { Redis } from "ioredis";
import { z } from "zod";
import {
  type createRedisLinks,
  linkFaultOf,
  type RedisLink,
  redisErrorText,
  redisUrlSchema,
} from "../../net/redis.ts";
import { tlsSchema } from "../../net/tls.ts";
import {
  type AttemptOutcome,
  abortedAttempt,
  breakerSchema,
  commonSchema,
  createSignatureHeaders,
  type Destination,
  failedAttempt,
  type OutgoingDelivery,
  timeoutSchema,
} from "./destination.ts";

export const redisSchema = commonSchema.extend({
  redis: redisUrlSchema.describe(
    "The Redis: redis://user:password@host:port/db, or rediss:// with TLS. Its address may be private.",
  ),
  timeout: timeoutSchema
    .prefault("5s")
    .describe(
      "Longest time of one attempt, 100ms to 5m. An attempt that timed out may still have succeeded.",
    ),
  concurrency: z
    .number()
    .int()
    .min(1)
    .max(1000)
    .default(64)
    .describe("Deliveries in flight at once."),
  tls: tlsSchema.optional().describe("Authorities and client certificate, for https and rediss."),
  breaker: breakerSchema("30s")
    .prefault({})
    .describe("When attempts pause because the destination keeps failing."),
});

export type LinkTo = ReturnType<typeof createRedisLinks>;

interface Running {
  index: number;
  end(outcome: AttemptOutcome): void;
}

/** The result is kept as the response. */
type Command = (
  redis: Redis,
  delivery: OutgoingDelivery,
  headers: Readonly<Record<string, string>> | null,
) => Promise<string | null>;

/** `finish` runs before the link is closed. */
export function createRedisDestination(
  settings: z.infer<typeof redisSchema>,
  clock: () => number,
  link: RedisLink,
  command: Command,
  finish = async (): Promise<void> => {},
): Destination {
  const { timeout } = settings;
  const headersOf = createSignatureHeaders(settings);
  // Not a Set: V8 replaces the table of a busy one often, and an old table that lives on keeps all
  // later attempts in memory.
  const running: Running[] = [];
  const idle = Promise.withResolvers<void>();
  let isClosed = false;
  let ended: Promise<void> | null = null;

  function remove({ index }: Running): void {
    const last = running.pop();
    if (last !== undefined && last.index !== index) {
      running[index] = last;
      last.index = index;
    }
    if (isClosed && running.length === 0) idle.resolve();
  }

  function retire(): Promise<void> {
    isClosed = true;
    if (running.length === 0) idle.resolve();
    ended ??= idle.promise.then(finish).then(link.close);
    return ended;
  }

  return {
    send(delivery, maySend) {
      if (isClosed) return Promise.resolve(abortedAttempt());
      const { promise, resolve } = Promise.withResolvers<AttemptOutcome>();
      const startedAt = performance.now();
      const tookMs = () => Math.round(performance.now() - startedAt);
      let isOver = false;
      const attempt: Running = {
        index: running.length,
        end(outcome) {
          if (isOver) return;
          isOver = true;
          clearTimeout(deadline);
          remove(attempt);
          resolve(outcome);
        },
      };
      const late = () =>
        attempt.end(failedAttempt("hung", `Redis does not answer within ${timeout} ms`, tookMs()));
      const deadline = setTimeout(late, timeout);
      running.push(attempt);
      link
        .ready()
        .then((redis) => {
          if (maySend?.() !== false) return command(redis, delivery, headersOf(delivery, clock()));
          attempt.end(abortedAttempt(tookMs()));
          return null;
        })
        .then(
          (response) => attempt.end(taken(response, tookMs())),
          (error: unknown) => attempt.end(failureOf(error, tookMs())),
        );
      return promise;
    },
    retire,
    close(): Promise<void> {
      const closed = retire();
      for (const attempt of [...running]) attempt.end(abortedAttempt());
      return closed;
    },
  };
}

function taken(response: string | null, tookMs: number): AttemptOutcome {
  return {
    result: { kind: "taken" },
    tookMs,
    response: response === null ? null : Buffer.from(response),
  };
}

function failureOf(error: unknown, tookMs: number): AttemptOutcome {
  const fault = linkFaultOf(error);
  // Such as for a key of another type.
  if (fault === null) return failedAttempt("refused", redisErrorText(error), tookMs);
  return failedAttempt(
    fault.kind,
    `${fault.message}${fault.mayBeDone ? "; it may have been done" : ""}`,
    tookMs,
  );
}

export const streamDestinationSchema = redisSchema.extend({
  stream: z
    .string()
    .min(1)
    .max(512)
    .describe("Key of the Redis stream that gets an entry for each delivery."),
  maxLength: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe(
      "Least number of entries kept. Redis trims whole nodes, so there may be some hundred more. Default: no limit.",
    ),
});
type StreamDestinationSettings = z.infer<typeof streamDestinationSchema>;

/** Several entries when an answer got lost. */
export function createStreamDestination(
  settings: StreamDestinationSettings,
  clock: () => number,
  linkTo: LinkTo,
): Destination {
  const trim = settings.maxLength === undefined ? [] : ["MAXLEN", "~", settings.maxLength];
  return createRedisDestination(
    settings,
    clock,
    linkTo(settings.redis, settings.tls),
    async (redis, delivery, headers) =>
      String(
        await redis.call("XADD", settings.stream, ...trim, "*", ...entryFields(delivery, headers)),
      ),
  );
}

/** docs/reference/event-formats.md */
export function jobFields({
  id,
  event,
  eventId,
  attempt,
  replays,
  contentType,
  contentEncoding,
  traceparent,
}: OutgoingDelivery) {
  return {
    deliveryId: id,
    event,
    eventId,
    attempt,
    replay: replays > 0,
    contentType,
    ...(contentEncoding === null ? {} : { contentEncoding }),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
}

/** The body is the original bytes. */
function entryFields(
  delivery: OutgoingDelivery,
  headers: Readonly<Record<string, string>> | null,
): (string | Buffer)[] {
  const fields = Object.entries(jobFields(delivery)).filter(([, value]) => value !== null);
  return [
    ...fields.flatMap(([name, value]) => [name, String(value)]),
    "body",
    delivery.body,
    ...(headers === null ? [] : ["headers", JSON.stringify(headers)]),
  ];
}
