import type { StreamDestinationSettings } from "../settings.ts";
import { createSignatureHeaders } from "./delivery-headers.ts";
import type { Destination, OutgoingDelivery } from "./destination.ts";
import { createRedisAttempts, type RedisLink } from "./redis-link.ts";

/** A destination that is a Redis stream: each delivery is one entry, or several when an answer got lost. */
export function createStreamDestination(settings: StreamDestinationSettings, link: RedisLink, clock: () => number): Destination {
  const attempts = createRedisAttempts(link, settings.timeout);
  const headersOf = createSignatureHeaders(settings);
  const trim = settings.maxLength === undefined ? [] : ["MAXLEN", "~", settings.maxLength];

  return {
    send: (delivery, signal, maySend) =>
      attempts.run(signal, maySend, async (redis) => {
        const fields = entryFields(delivery, headersOf(delivery, clock()));
        const entry = await redis.call("XADD", settings.stream, ...trim, "*", ...fields);
        return String(entry);
      }),
    async close() {
      attempts.close();
      link.close();
    },
  };
}

/** Fields and values of an entry (docs/reference/event-formats.md). The body is the original bytes. */
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
