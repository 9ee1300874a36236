import type { Secret } from "../event/secret.ts";

/** Whether a key can go into a header at all: visible ASCII, at least one character, no space (RFC 9110, 5.5). */
export function isApiKey(key: Secret): boolean {
  return /^[\x21-\x7e]+$/.test(key.reveal());
}
