import { Secret } from "../event/secret.ts";
import type { Settings } from "./schema.ts";

/** Those of `parts` in which two settings differ, in a secret too. */
export function changedParts<P extends keyof Settings>(before: Settings, after: Settings, parts: readonly P[]): P[] {
  return parts.filter((part) => textOf(before[part]) !== textOf(after[part]));
}

/** Secrets stand by their fingerprints: all of them print alike. */
function textOf(value: unknown): string {
  return JSON.stringify(value, function (this: Record<string, unknown>, key, printed) {
    const held = this[key];
    return held instanceof Secret ? held.fingerprint() : printed;
  });
}
