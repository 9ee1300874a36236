import { keptResponseBytes } from "../../model/delivery.ts";
import type { Redactor } from "../../model/redact.ts";
import type { DestinationSettings } from "../settings.ts";
import type { AttemptOutcome, Destination, OutgoingDelivery } from "./destination.ts";
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

/** Redacts secrets in answers: a destination that echoes its request would put them into the store and the log. */
export function redactAnswers(destination: Destination, redactor: Pick<Redactor, "bytes">): Destination {
  return {
    send: (delivery, signal) => destination.send(delivery, signal).then((outcome) => redactAnswer(outcome, delivery, redactor)),
    close: () => destination.close(),
  };
}

/** Redacts secrets in one answer to `delivery`. */
export function redactAnswer<Outcome extends AttemptOutcome>(
  outcome: Outcome,
  { passHeaders }: Pick<OutgoingDelivery, "passHeaders">,
  redactor: Pick<Redactor, "bytes">,
): Outcome {
  if (outcome.response === null) return outcome;
  const response = redactor.bytes(outcome.response, signaturesIn(passHeaders));
  // The mark may be longer than the secret.
  return response === outcome.response ? outcome : { ...outcome, response: response.subarray(0, keptResponseBytes) };
}

/** The original sender's signatures. `webhook-id` and the timestamp are not secret by themselves. */
function signaturesIn(headers: OutgoingDelivery["passHeaders"]): string[] {
  const found: string[] = [];
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined && name.includes("signature")) found.push(value);
  }
  return found;
}
