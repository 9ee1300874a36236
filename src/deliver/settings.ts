import { hash } from "node:crypto";
import { z } from "zod";
import { type Shard, wholeRoute } from "../model/route-lease.ts";
import { comparableText } from "../model/secret.ts";
import { createRedisLinks } from "../net/redis.ts";
import type { Destination } from "./destinations/destination.ts";
import { createQueueDestination, queueDestinationSchema } from "./destinations/queue.ts";
import {
  createStreamDestination,
  type LinkTo,
  streamDestinationSchema,
} from "./destinations/redis.ts";
import { type App, createUrlDestination, routeUrlSchema } from "./destinations/url.ts";

export {
  type CommonSettings,
  type RetrySettings,
  signingSecrets,
} from "./destinations/destination.ts";
export { type UrlDestinationSettings, urlDestinationSchema } from "./destinations/url.ts";

/**
 * `original`: the bytes received. `standard`: the relay's envelope. `enriched`: that with a `relay`
 * object.
 */
export const payloadSchema = z.enum(["original", "standard", "enriched"]);
export type Payload = z.infer<typeof payloadSchema>;

export interface LaneSettings {
  readonly name: string;
  readonly payload: Payload;
  readonly to: DestinationSettings;
  readonly shards?: number;
  readonly shard?: Shard;
}

/** Attempts per second. */
export const rateOf = ({ to, shard = wholeRoute }: LaneSettings): number =>
  (to.rate ?? Number.POSITIVE_INFINITY) / shard.of;

/**
 * A changed destination starts with a closed breaker and without a pause. Shards start with what
 * one of them stored last.
 */
export function breakerName({ name, payload, to }: LaneSettings): string {
  return `${name}:${hash("sha256", comparableText({ payload, to })).slice(0, 12)}`;
}

interface Kind<Schema extends z.ZodType> {
  readonly schema: Schema;
  /** `clock` gives unix ms. */
  readonly create: (to: z.infer<Schema>, clock: () => number, linkTo: LinkTo) => Destination;
}

const kind = <Schema extends z.ZodType>(
  schema: Schema,
  create: Kind<Schema>["create"],
): Kind<Schema> => ({ schema, create });

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

export function appOf({ to }: Pick<LaneSettings, "to">): App | null {
  return "url" in to && to.verifyToken !== undefined
    ? { ...to, verifyToken: to.verifyToken }
    : null;
}

/** `clock` gives unix ms. */
export function createDestinations(clock: () => number): (to: DestinationSettings) => Destination {
  const linkTo = createRedisLinks();
  // TypeScript cannot relate the kind to the settings it was read from.
  return (to) =>
    (kinds[kindOf(to)].create as Kind<typeof destinationSchema>["create"])(to, clock, linkTo);
}
