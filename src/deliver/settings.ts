import { createHash } from "node:crypto";
import { z } from "zod";
import { type Shard, wholeRoute } from "../model/route-lease.ts";
import { Secret } from "../model/secret.ts";
import type { DestinationSettings } from "./destinations/kinds.ts";

export { type CommonSettings, type RetrySettings, signingSecrets } from "./destinations/destination.ts";
export { type DestinationSettings, destinationKeys, destinationSchema, kindOf } from "./destinations/kinds.ts";
export { type UrlDestinationSettings, urlDestinationSchema } from "./destinations/url.ts";

/** `original`: the bytes received. `standard`: the relay's envelope. `enriched`: that with a `relay` object. */
export const payloadSchema = z.enum(["original", "standard", "enriched"]);
export type Payload = z.infer<typeof payloadSchema>;

export interface LaneSettings {
  readonly name: string;
  readonly payload: Payload;
  readonly to: DestinationSettings;
  readonly shards?: number;
  readonly shard?: Shard;
}

export const rateOf = ({ to, shard = wholeRoute }: LaneSettings): number | undefined =>
  to.rate === undefined ? undefined : to.rate / shard.of;

/** For comparison. Secrets appear as fingerprints. */
export function describeLane(settings: LaneSettings): string {
  return JSON.stringify(settings, function (this: Record<string, unknown>, key, value: unknown) {
    // `value` has passed `toJSON`, which hides a secret. The object still has the secret itself.
    const raw = this[key];
    return raw instanceof Secret ? raw.fingerprint() : value;
  });
}

/** Changed settings start with a closed breaker and without a pause. Shards start with what one of them stored last. */
export function breakerName({ shard: _, ...ofRoute }: LaneSettings): string {
  const fingerprint = createHash("sha256").update(describeLane(ofRoute)).digest("hex").slice(0, 12);
  return `${ofRoute.name}:${fingerprint}`;
}
