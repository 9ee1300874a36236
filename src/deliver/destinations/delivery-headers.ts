import type { Secret } from "../../model/secret.ts";
import { createHmacKey, createSigner, decodeKey, type HmacKey } from "../../model/signature.ts";
import { type CommonSettings, type OutgoingDelivery, signingSecrets } from "./destination.ts";

/** As undici takes them: name, value, name, value. `now`: unix ms. */
type DeliveryHeaders = (delivery: OutgoingDelivery, now: number) => string[];

const notPassed =
  /^(host|content-type|content-encoding|content-length|connection|transfer-encoding|upgrade|keep-alive|te|trailer|expect|x-wamid-relay-.*|webhook-attempt|webhook-replay)$/;
const ours = ["webhook-id", "webhook-timestamp", "webhook-signature"];

interface HeaderSettings extends Pick<CommonSettings, "secret" | "secrets"> {
  readonly headers: Readonly<Record<string, Secret>>;
  readonly signature?: { readonly preset: "meta"; readonly secret: Secret } | undefined;
}

export function fixedHeaders(settings: Pick<HeaderSettings, "headers">, version: string): Map<string, string> {
  const fixed = new Map(Object.entries(settings.headers).map(([name, value]) => [name.toLowerCase(), value.reveal()]));
  if (!fixed.has("user-agent")) fixed.set("user-agent", `wamid-relay/${version}`);
  return fixed;
}

export function createDeliveryHeaders(settings: HeaderSettings, version: string): DeliveryHeaders {
  const fixed = fixedHeaders(settings, version);
  const fixedList = [...fixed].flat();
  const keys = signingSecrets(settings).map(signingKey);
  const { signature } = settings;
  const signAsMeta = signature && createSigner({ preset: signature.preset }, signature.secret.reveal());

  return (delivery, now) => {
    const timestamp = String(Math.floor(now / 1000));
    const headers = [...fixedList, "content-type", delivery.contentType];
    if (delivery.contentEncoding !== null) headers.push("content-encoding", delivery.contentEncoding);
    headers.push("webhook-attempt", String(delivery.attempt), "x-wamid-relay-event", eventHeader(delivery.event));
    if (delivery.replays > 0) headers.push("webhook-replay", "true");
    if (delivery.traceparent !== undefined && !fixed.has("traceparent")) headers.push("traceparent", delivery.traceparent);
    let passed: Set<string> | null = null;
    for (const name of Object.keys(delivery.passHeaders)) {
      const value = delivery.passHeaders[name];
      // Headers from the settings win, and so does the relay's signature, which needs its own id and timestamp.
      if (value === undefined || notPassed.test(name) || fixed.has(name) || (keys.length > 0 && ours.includes(name))) continue;
      headers.push(name, value);
      passed ??= new Set();
      passed.add(name);
    }
    // Without a secret here, an original Standard Webhooks signature keeps the id and timestamp it covers.
    if (passed === null || !passed.has("webhook-id")) headers.push("webhook-id", delivery.id);
    if (passed === null || !passed.has("webhook-timestamp")) headers.push("webhook-timestamp", timestamp);
    if (keys.length > 0) headers.push("webhook-signature", signWebhook(keys, delivery.id, timestamp, delivery.body));
    if (signAsMeta !== undefined) {
      const { id, body } = delivery;
      headers.push(...Object.entries(signAsMeta({ method: "POST", url: "", id, body, timestampMs: now })).flat());
    }
    return headers;
  };
}

const plain = /^[\x21-\x24\x26-\x7e]+$/;

/** Percent-encoded unless it is visible ASCII without `%`. */
export function eventHeader(event: string): string {
  return plain.test(event) ? event : encodeURIComponent(event.toWellFormed());
}

/** Null: none. */
type SignatureHeaders = (delivery: OutgoingDelivery, now: number) => Readonly<Record<string, string>> | null;

/** The relay's headers win over the original ones. */
export function createSignatureHeaders(settings: Pick<CommonSettings, "secret" | "secrets">): SignatureHeaders {
  const keys = signingSecrets(settings).map(signingKey);
  return ({ id, body, passHeaders }, now) => {
    if (keys.length === 0) return Object.keys(passHeaders).length === 0 ? null : passHeaders;
    const timestamp = String(Math.floor(now / 1000));
    return {
      ...passHeaders,
      "webhook-id": id,
      "webhook-timestamp": timestamp,
      "webhook-signature": signWebhook(keys, id, timestamp, body),
    };
  };
}

const prefix = "whsec_";

/** Throws a RangeError on bad base64. */
function signingKey(secret: Secret): HmacKey {
  const text = secret.reveal();
  return createHmacKey("sha256", decodeKey(text, text.startsWith(prefix) ? "whsec" : "utf8"));
}

/** Standard Webhooks 1.0: `v1,` and the base64 HMAC-SHA256 over `{id}.{timestamp}.{body}` for each key. */
function signWebhook(keys: readonly HmacKey[], id: string, timestamp: string, body: Buffer): string {
  return keys.map((key) => `v1,${key.digest([`${id}.${timestamp}.`, body]).toString("base64")}`).join(" ");
}
