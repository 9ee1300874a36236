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
