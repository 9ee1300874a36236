import { z } from "zod";
import { keptResponseBytes } from "../../model/delivery.ts";
import type { Redactor } from "../../model/redact.ts";
import { createRedisLinks } from "../../net/redis-link.ts";
import type { AttemptOutcome, Destination, OutgoingDelivery } from "./destination.ts";
import { createQueueDestination, queueDestinationSchema } from "./queue.ts";
import type { LinkTo } from "./redis.ts";
import { createStreamDestination, streamDestinationSchema } from "./stream.ts";
import { createUrlDestination, routeUrlSchema } from "./url.ts";

interface Kind<Schema extends z.ZodType> {
  readonly schema: Schema;
  /** `clock` gives unix ms. */
  readonly create: (to: z.infer<Schema>, clock: () => number, linkTo: LinkTo) => Destination;
}

const kind = <Schema extends z.ZodType>(schema: Schema, create: Kind<Schema>["create"]): Kind<Schema> => ({ schema, create });

/** Each under the key that only its settings have. */
const kinds = {
  url: kind(routeUrlSchema, (to, clock) => createUrlDestination(to, clock)),
  queue: kind(queueDestinationSchema, createQueueDestination),
  stream: kind(streamDestinationSchema, createStreamDestination),
};
export type DestinationKind = keyof typeof kinds;
export const destinationKeys = Object.keys(kinds) as DestinationKind[];

export const destinationSchema = z.union(destinationKeys.map((key) => kinds[key].schema));
export type DestinationSettings = z.infer<typeof destinationSchema>;

export function kindOf(to: DestinationSettings): DestinationKind {
  return destinationKeys.find((key) => key in to) as DestinationKind;
}

/** `clock` gives unix ms. */
export function createDestinations(clock: () => number): (to: DestinationSettings) => Destination {
  const linkTo = createRedisLinks();
  // TypeScript cannot relate the kind to the settings it was read from.
  return (to) => (kinds[kindOf(to)].create as Kind<typeof destinationSchema>["create"])(to, clock, linkTo);
}

/** A destination that echoes its request would put secrets into the store and the log. */
export function redactAnswers(destination: Destination, redactor: Pick<Redactor, "bytes">): Destination {
  return {
    ...destination,
    send: (delivery, maySend) => destination.send(delivery, maySend).then((outcome) => redactAnswer(outcome, delivery, redactor)),
  };
}

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

/** `webhook-id` and the timestamp are not secret by themselves. */
function signaturesIn(headers: OutgoingDelivery["passHeaders"]): string[] {
  const found: string[] = [];
  for (const name in headers) {
    const value = headers[name];
    if (value !== undefined && name.includes("signature")) found.push(value);
  }
  return found;
}
