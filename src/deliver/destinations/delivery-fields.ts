import { isUtf8 } from "node:buffer";
import type { LineSettings } from "../line-settings.ts";
import type { OutgoingDelivery } from "./destination.ts";
import { signingKey, signWebhook } from "./webhook-signature.ts";

/** Headers to verify a signature with, as a destination that is a URL would have got them; `null`: there are none. */
export type SignatureHeaders = (delivery: OutgoingDelivery, now: number) => Readonly<Record<string, string>> | null;

/** Our own signature when there is a `secret`; the original one with `passSignature`, whose names ours win over. */
export function createSignatureHeaders(settings: Pick<LineSettings, "secret">): SignatureHeaders {
  const key = settings.secret === undefined ? null : signingKey(settings.secret);
  return ({ id, body, passHeaders }, now) => {
    if (key === null) return Object.keys(passHeaders).length === 0 ? null : passHeaders;
    const timestamp = String(Math.floor(now / 1000));
    return {
      ...passHeaders,
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": signWebhook(key, id, timestamp, body),
    };
  };
}

/** A body as text that gives the same bytes again. */
export interface BodyText {
  readonly body: string;
  readonly encoding: "utf8" | "base64";
}

/** The bytes as they are, as text where they are UTF-8: never parsed, because writing JSON anew changes big numbers and escapes. */
export function bodyText(body: Buffer): BodyText {
  return isUtf8(body) ? { body: body.toString("utf8"), encoding: "utf8" } : { body: body.toString("base64"), encoding: "base64" };
}
