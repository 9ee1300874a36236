import { z } from "zod";
import { createSignatureHeaders } from "./delivery-headers.ts";
import type { Destination, OutgoingDelivery } from "./destination.ts";
import { createRedisAttempts, type LinkTo, redisSchema } from "./redis.ts";

export const streamDestinationSchema = redisSchema.extend({
  stream: z.string().min(1).max(512).describe("Key of the Redis stream that gets an entry for each delivery."),
  maxLength: z
    .number()
    .int()
    .min(1)
    .optional()
    .describe("Least number of entries kept. Redis trims whole nodes, so there may be some hundred more. Default: no limit."),
});
type StreamDestinationSettings = z.infer<typeof streamDestinationSchema>;

/** Several entries when an answer got lost. */
export function createStreamDestination(settings: StreamDestinationSettings, clock: () => number, linkTo: LinkTo): Destination {
  const attempts = createRedisAttempts(linkTo(settings.redis, settings.tls), settings.timeout);
  const headersOf = createSignatureHeaders(settings);
  const trim = settings.maxLength === undefined ? [] : ["MAXLEN", "~", settings.maxLength];

  return {
    retire: attempts.retire,
    close: attempts.close,
    send: (delivery, maySend) =>
      attempts.run(maySend, async (redis) => {
        const fields = entryFields(delivery, headersOf(delivery, clock()));
        const entry = await redis.call("XADD", settings.stream, ...trim, "*", ...fields);
        return String(entry);
      }),
  };
}

/** docs/reference/event-formats.md */
function entryFields(delivery: OutgoingDelivery, headers: Readonly<Record<string, string>> | null): (string | Buffer)[] {
  return [
    ...["deliveryId", delivery.id],
    ...["event", delivery.event],
    ...(delivery.eventId === null ? [] : ["eventId", delivery.eventId]),
    ...["attempt", String(delivery.attempt)],
    ...["replay", String(delivery.replays > 0)],
    ...["contentType", delivery.contentType],
    ...(delivery.contentEncoding === null ? [] : ["contentEncoding", delivery.contentEncoding]),
    ...(delivery.traceparent === undefined ? [] : ["traceparent", delivery.traceparent]),
    "body",
    delivery.body,
    ...(headers === null ? [] : ["headers", JSON.stringify(headers)]),
  ];
}
