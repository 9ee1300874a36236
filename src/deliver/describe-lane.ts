import { createHash } from "node:crypto";
import { Secret } from "../event/secret.ts";
import type { LaneSettings } from "./lane.ts";

/** Settings as text, to see whether they changed; secrets count by their fingerprints. */
export function describeLane(settings: LaneSettings): string {
  return JSON.stringify(settings, function (this: Record<string, unknown>, key, value: unknown) {
    // `value` has gone through toJSON, which hides a secret; what stands in the object has not.
    const raw = this[key];
    return raw instanceof Secret ? raw.fingerprint() : value;
  });
}

/**
 * What the breaker of a route is called. The name depends on the route's settings, so that changed settings begin with a
 * closed breaker and without a pause.
 */
export function breakerName(settings: LaneSettings): string {
  const fingerprint = createHash("sha256").update(describeLane(settings)).digest("hex").slice(0, 12);
  return `${settings.name}:${fingerprint}`;
}
