import type { DestinationSettings } from "../settings.ts";
import type { Destination } from "./destination.ts";
import { createQueueDestination } from "./queue.ts";
import { createRedisLinks } from "./redis-link.ts";
import { createStreamDestination } from "./stream.ts";
import { createUrlDestination } from "./url.ts";

/** Makes the destination of any kind. `clock` gives unix milliseconds. Destinations on one Redis share a connection. */
export function createDestinations(clock: () => number): (to: DestinationSettings) => Destination {
  const link = createRedisLinks();
  return (to) => {
    if ("url" in to) return createUrlDestination(to, clock);
    if ("queue" in to) return createQueueDestination(to, link(to.redis), clock);
    return createStreamDestination(to, link(to.redis), clock);
  };
}
