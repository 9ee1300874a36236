import { createHmacKey, type HmacKey } from "../../event/hmac.ts";
import type { Secret } from "../../event/secret.ts";
import { decodeKey } from "../../event/signature-bytes.ts";

const prefix = "whsec_";

/** The key of a Standard Webhooks secret: the base64 after `whsec_`, else the text's UTF-8 bytes. Throws a RangeError on bad base64: a slip must not sign with another key. */
export function signingKey(secret: Secret): HmacKey {
  const text = secret.reveal();
  return createHmacKey("sha256", decodeKey(text, text.startsWith(prefix) ? "whsec" : "utf8"));
}

/** The value of `webhook-signature` (Standard Webhooks 1.0): `v1,` and the base64 HMAC-SHA256 over `{id}.{timestamp}.{body}`. */
export function signWebhook(key: HmacKey, id: string, timestamp: string, body: Buffer): string {
  return `v1,${key.digest([`${id}.${timestamp}.`, body]).toString("base64")}`;
}
