import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";

/** How a delivery's Standard Webhooks signature fared. */
export type SignatureVerdict = "valid" | "invalid" | "absent";

/**
 * Checks a delivery as a downstream would (standardwebhooks.com): HMAC-SHA256 over `{id}.{timestamp}.{body}`,
 * base64, as one of the space-separated `v1,…` entries. Written apart from the relay's own code, so that
 * both cannot share a mistake. The timestamp's age is not checked: tests run on clocks of their own.
 */
export function verifyStandardWebhook(headers: IncomingHttpHeaders, body: Buffer, secret: string): SignatureVerdict {
  const { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signature } = headers;
  if (typeof signature !== "string") return "absent";
  if (typeof id !== "string" || typeof timestamp !== "string" || !/^\d+$/.test(timestamp)) return "invalid";
  const key = secret.startsWith("whsec_") ? Buffer.from(secret.slice("whsec_".length), "base64") : Buffer.from(secret, "utf8");
  const right = createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest();
  const isRight = signature.split(" ").some((entry) => {
    if (!entry.startsWith("v1,")) return false;
    const given = Buffer.from(entry.slice("v1,".length), "base64");
    return given.length === right.length && timingSafeEqual(given, right);
  });
  return isRight ? "valid" : "invalid";
}
