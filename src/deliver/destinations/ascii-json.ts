import { isAscii, isUtf8 } from "node:buffer";
import type { OutgoingDelivery } from "./destination.ts";

/**
 * The delivery as Meta's Cloud API would send it: JSON in ASCII. Consumers of Meta compare media types, and some escape the
 * body before they verify its signature.
 */
export function asMetaSends(delivery: OutgoingDelivery): OutgoingDelivery {
  return { ...delivery, body: asciiJson(delivery.body), contentType: "application/json" };
}

/**
 * JSON with each character outside ASCII as `\uXXXX` in lower-case hex, as Meta writes it, and every other byte unchanged. A body
 * that is not JSON stays as it is.
 */
export function asciiJson(body: Buffer): Buffer {
  if (isAscii(body) || !isUtf8(body)) return body;
  const text = body.toString("utf8");
  try {
    JSON.parse(text);
  } catch {
    return body;
  }
  return Buffer.from(
    text.replace(/[^\0-\x7f]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`),
    "latin1",
  );
}
