import { Redis as Client } from "ioredis";
import { onTestFinished } from "vitest";
import type {
  AttemptOutcome,
  Destination,
  OutgoingDelivery,
} from "../../../src/deliver/destinations/destination.ts";
import { createDestinations, destinationSchema } from "../../../src/deliver/settings.ts";
import { delivery as anyDelivery } from "../url-destination/attempt.ts";

/**
 * Makes destinations that share their connections and end with the test. Their deadline is for a
 * machine that pauses.
 */
export function openDestinations(): (to: Record<string, unknown>) => Destination {
  const connect = createDestinations(Date.now);
  return (to) => {
    const destination = connect(destinationSchema.parse({ timeout: "60s", ...to }));
    onTestFinished(() => destination.close());
    return destination;
  };
}

/** A client to look with, which waits for a connection. */
export function look(url: string): Client {
  const client = new Client(url, { maxRetriesPerRequest: null, retryStrategy: () => 20 });
  client.on("error", () => {});
  onTestFinished(() => client.disconnect());
  return client;
}

export const delivery: OutgoingDelivery = {
  ...anyDelivery,
  // A number that JSON.parse would change, and an escape that JSON.stringify would.
  body: Buffer.from(
    '{"id":"01998d3e-7c1a-7000-8000-00000000002a", "big":12345678901234567890,"text":"\\u00f1"}',
  ),
};

export function attempt(to: Destination, change: Partial<OutgoingDelivery> = {}) {
  return to.send({ ...delivery, ...change });
}

/** An outcome as one line: `taken`, `full: Redis is full (maxmemory)`. */
export function told({ result, response }: AttemptOutcome): string {
  return result.kind === "failed" ? `${result.error}: ${response?.toString() ?? ""}` : result.kind;
}
