import { hash, randomBytes } from "node:crypto";
import { kept } from "./maps.ts";

/** Text that the compiler does not mix up with other ids. */
type Brand<T extends string> = string & { readonly __brand: T };

export type AccountName = string;
export type SourceName = string;
export type RouteName = string;
/** Id of an event from the service, unique within an account, compared as text. */
export type EventId = Brand<"EventId">;
/**
 * Network id of a message: opaque, case-sensitive, and it contains the recipient's phone number.
 */
export type Wamid = Brand<"Wamid">;
export type RunId = Brand<"RunId">;
export type DeliveryId = Brand<"DeliveryId">;

/**
 * Of an event id, event kind, wamid, run id or a run's reference, in code points; four times the
 * longest seen in the field.
 */
export const maxIdLength = 256;
/** Of a message's reference, in code points: Meta takes as many as `biz_opaque_callback_data`. */
export const maxReferenceLength = 512;

export function hasIdLength(text: string, most = maxIdLength): boolean {
  return text.length <= most || (text.length <= 2 * most && codePoints(text) <= most);
}

function codePoints(text: string): number {
  let count = 0;
  for (const _ of text) count += 1;
  return count;
}

/**
 * Whether it is stored as it is: a lone surrogate has no UTF-8 form, and PostgreSQL's text no NUL
 * character.
 */
export const isStorable = (text: string): boolean => text.isWellFormed() && !text.includes("\0");

export function cutText(text: string, most: number): string {
  const cut =
    text.length <= most
      ? text
      : Array.from(text.slice(0, 2 * most))
          .slice(0, most)
          .join("");
  return isStorable(cut) ? cut : cut.toWellFormed().replaceAll("\0", "\ufffd");
}

const canonicalUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** True for a UUID in lower case with hyphens: it can be stored as 16 bytes. */
export function isCanonicalUuid(text: string): boolean {
  return canonicalUuid.test(text);
}

export function uuidText(hex: string): string {
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * Destinations dedupe by it, so it stays the same on every engine and after the loss of the store.
 * `dlv_<32 hex>_<12 hex>` for UUID event ids, `dlv_b<base64url>_<12 hex>` for others.
 */
export function deliveryId(account: AccountName, eventId: EventId, route: RouteName): DeliveryId {
  const event = isCanonicalUuid(eventId)
    ? eventId.replaceAll("-", "")
    : `b${Buffer.from(eventId, "utf8").toString("base64url")}`;
  return `dlv_${event}_${routeTag(account, route)}` as DeliveryId;
}

const routeTags = new Map<string, string>();

export function routeTag(account: AccountName, route: RouteName): string {
  const key = `${account}\0${route}`;
  return kept(routeTags, key, () => hash("sha256", key).slice(0, 12));
}

/** The event id and route tag in a delivery id; null when the text is none. */
export function parseDeliveryId(text: string): { eventId: EventId; routeTag: string } | null {
  const match = /^dlv_(?:([0-9a-f]{32})|b([A-Za-z0-9_-]+))_([0-9a-f]{12})$/.exec(text);
  if (match === null) return null;
  const [, hex, encoded, tag] = match;
  const eventId =
    hex !== undefined
      ? uuidText(hex)
      : Buffer.from(encoded as string, "base64url").toString("utf8");
  return { eventId: eventId as EventId, routeTag: tag as string };
}

/** A UUID of version 8 (RFC 9562, 5.8): the first 122 bits of the SHA-256 of a text. */
export function derivedUuid(text: string): string {
  const digest = hash("sha256", text, "buffer");
  digest[6] = ((digest[6] as number) & 0x0f) | 0x80;
  digest[8] = ((digest[8] as number) & 0x3f) | 0x80;
  return uuidText(digest.toString("hex", 0, 16));
}

/** A UUID version 7 (RFC 9562), which grows with time, like the service's ids. */
export function uuidv7(now: number, random: (size: number) => Uint8Array = randomBytes): string {
  const bytes = Buffer.alloc(16);
  bytes.writeUIntBE(now, 0, 6);
  bytes.set(random(10), 6);
  bytes[6] = ((bytes[6] as number) & 0x0f) | 0x70;
  bytes[8] = ((bytes[8] as number) & 0x3f) | 0x80;
  return uuidText(bytes.toString("hex"));
}

/**
 * By how much numbers are advanced when a PostgreSQL server may have lost some: more than it can
 * have given.
 */
export const seqLeap = 1_000_000_000;

/** How many events there are at most with a seq above `after` and up to `to`. */
export const seqsBetween = (after: number, to: number): number => Math.max(0, to - after) % seqLeap;
