import type { DestinationSettings } from "../settings.ts";
import type { Destination } from "./destination.ts";
import { createUrlDestination } from "./url.ts";

/** Makes the destination of any kind. `clock` gives unix milliseconds. */
export function createDestinations(clock: () => number): (to: DestinationSettings) => Destination {
  return (to) => {
    if ("url" in to) return createUrlDestination(to, clock);
    throw new Error("queues and streams come with the next commit");
  };
}
