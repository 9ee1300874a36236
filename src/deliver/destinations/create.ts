import type { z } from "zod";
import { keptResponseBytes } from "../../model/delivery.ts";
import type { Redactor } from "../../model/redact.ts";
import type { Secret } from "../../model/secret.ts";
import type { TlsSettings } from "../../net/tls.ts";
import { type DestinationKind, type DestinationSettings, type destinationSchemas, kindOf } from "../settings.ts";
import type { AttemptOutcome, Destination, OutgoingDelivery } from "./destination.ts";
import { createQueueDestination } from "./queue.ts";
import { createRedisLinks, type RedisLink } from "./redis-link.ts";
import { createStreamDestination } from "./stream.ts";
import { createUrlDestination } from "./url.ts";

interface DestinationParts {
  /** Unix milliseconds. */
  readonly clock: () => number;
  /** The connection to a Redis, shared by all destinations there. */
  readonly link: (url: Secret, tls?: TlsSettings) => RedisLink;
}

type Create<Kind extends DestinationKind> = (to: z.infer<(typeof destinationSchemas)[Kind]>, parts: DestinationParts) => Destination;

const creators: { readonly [Kind in DestinationKind]: Create<Kind> } = {
  url: (to, { clock }) => createUrlDestination(to, clock),
  queue: (to, { clock, link }) => createQueueDestination(to, link(to.redis, to.tls), clock),
  stream: (to, { clock, link }) => createStreamDestination(to, link(to.redis, to.tls), clock),
};

/** Makes the destination of any kind. */
export function createDestinations(clock: () => number): (to: DestinationSettings) => Destination {
  const parts = { clock, link: createRedisLinks() };
  // TypeScript cannot relate the kind to the settings it was read from.
  return (to) => (creators[kindOf(to)] as Create<DestinationKind>)(to, parts);
}

/** Redacts secrets in answers: a destination that echoes its request would put them into the store and the log. */
export function redactAnswers(destination: Destination, redactor: Pick<Redactor, "bytes">): Destination {
  return {
    send: (delivery, signal, maySend) =>
      destination.send(delivery, signal, maySend).then((outcome) => redactAnswer(outcome, delivery, redactor)),
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
