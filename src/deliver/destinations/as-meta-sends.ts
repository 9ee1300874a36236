import { isAscii, isUtf8 } from "node:buffer";
import { asciiJson } from "../../model/json.ts";
import type { OutgoingDelivery } from "./destination.ts";

/**
 * The delivery as Meta's Cloud API would send it: JSON in ASCII. Consumers of Meta compare media types, and some escape the
 * body before they verify its signature.
 */
export function asMetaSends(delivery: OutgoingDelivery): OutgoingDelivery {
  return { ...delivery, body: asciiBody(delivery.body), contentType: "application/json" };
}

/** A body in JSON with every character outside ASCII escaped, and the other bytes unchanged. A body that is not JSON stays as it is. */
export function asciiBody(body: Buffer): Buffer {
  if (isAscii(body) || !isUtf8(body)) return body;
  const text = body.toString("utf8");
  try {
    JSON.parse(text);
  } catch {
    return body;
  }
  return Buffer.from(asciiJson(text), "latin1");
}
