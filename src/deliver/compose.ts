import type { StoredDelivery } from "../model/delivery.ts";
import { rawOf, readContent } from "../model/formats/formats.ts";
import { deliveryId } from "../model/ids.ts";
import { asciiJson } from "../model/json.ts";
import type { OutgoingDelivery } from "./destinations/destination.ts";
import type { Payload } from "./settings.ts";

export function compose(delivery: StoredDelivery, payload: Payload, passSignature: boolean): OutgoingDelivery {
  const original = composeOriginal(delivery, passSignature);
  if (payload === "original") return original;
  const outgoing = delivery.format === undefined ? original : { ...original, body: standardBody(delivery) };
  if (payload === "standard") return outgoing;
  const part = relayPart(delivery, outgoing.id);
  const isReceived = delivery.origin === "webhook";
  return { ...outgoing, body: isReceived ? enrich(outgoing.body, part) : extend(delivery.body, part) };
}

function standardBody({ format, eventId, kind, body }: StoredDelivery): Buffer {
  const content = readContent(format ?? null, body);
  const raw = rawOf(format ?? null, body);
  if (content === null || raw === null) return body;
  const { raw: _, ...data } = content.data;
  const text = JSON.stringify({ id: eventId, event: kind, createdAt: content.createdAt, data });
  const open = Object.keys(data).length === 0 ? "" : ",";
  return Buffer.from(asciiJson(`${text.slice(0, -2)}${open}"raw":${raw.toString("utf8")}}}`), "latin1");
}

/** An event that the relay made has a `relay` object already; a second one would be the same key twice. */
function extend(body: Buffer, part: Readonly<Record<string, unknown>>): Buffer {
  const { relay, ...envelope } = JSON.parse(body.toString("utf8")) as { readonly relay?: object };
  return Buffer.from(JSON.stringify({ ...envelope, relay: { ...relay, ...part } }), "utf8");
}

// TypeScript's library lacks both.
const { parse, rawJSON } = JSON as unknown as {
  parse(text: string, reviver: (key: string, value: unknown, context: { readonly source: string }) => unknown): unknown;
  rawJSON(source: string): object;
};

/** Numbers stay as they were written. */
function withoutRelay(body: Buffer): Buffer {
  // The key may have escapes.
  if (!body.includes('"relay"') && !body.includes("\\u00")) return body;
  try {
    const value = parse(body.toString("utf8"), (_key, each, { source }) => (typeof each === "number" ? rawJSON(source) : each));
    if (typeof value !== "object" || value === null || Array.isArray(value) || !Object.hasOwn(value, "relay")) return body;
    const { relay: _, ...others } = value as { readonly relay: unknown };
    return Buffer.from(JSON.stringify(others), "utf8");
  } catch {
    return body;
  }
}

export function composeOriginal(delivery: StoredDelivery, passSignature: boolean): OutgoingDelivery {
  const id = deliveryId(delivery.account, delivery.eventId, delivery.route);
  const {
    "content-type": contentType = "application/json",
    "content-encoding": contentEncoding = null,
    // The sender's: each attempt has its own.
    traceparent: _,
    ...signature
  } = delivery.headers;
  return {
    id,
    event: delivery.kind,
    eventId: delivery.eventId,
    attempt: delivery.attempts + 1,
    replays: delivery.replays,
    body: delivery.body,
    contentType,
    contentEncoding,
    passHeaders: passSignature ? signature : noHeaders,
  };
}

const noHeaders = {};

function relayPart(delivery: StoredDelivery, id: string): Record<string, unknown> {
  const { subject } = delivery;
  const part: Record<string, unknown> = {
    deliveryId: id,
    route: delivery.route,
    origin: delivery.origin,
    source: delivery.source,
    account: delivery.account,
    receivedAt: new Date(delivery.receivedAt).toISOString(),
  };
  if (subject !== null) {
    part[subject.type] = {
      tracked: subject.tracked,
      ...(subject.type === "message" ? { id: subject.id } : {}),
      reference: subject.reference,
      metadata: subject.metadata,
      previousStatus: subject.previousStatus,
      transition: subject.moved,
    };
  }
  const { hydration } = delivery;
  if (hydration !== undefined) {
    part["truncated"] = true;
    part["hydration"] = hydration;
  }
  return part;
}

const space = new Set([0x20, 0x09, 0x0a, 0x0d]);

/** On bytes, because serializing again would change big numbers and escapes. What is no JSON object stays as it is. */
export function enrich(received: Buffer, relay: Readonly<Record<string, unknown>>): Buffer {
  const body = withoutRelay(received);
  let end = body.length - 1;
  while (end >= 0 && space.has(body[end] as number)) end -= 1;
  let start = 0;
  while (start < end && space.has(body[start] as number)) start += 1;
  if (end < 1 || body[end] !== 0x7d || body[start] !== 0x7b) return body;
  let last = end - 1;
  while (last > start && space.has(body[last] as number)) last -= 1;
  const separator = last === start ? "" : ",";
  return Buffer.concat([body.subarray(0, end), Buffer.from(`${separator}"relay":${JSON.stringify(relay)}}`, "utf8")]);
}
