import { createHash } from "node:crypto";
import { parseDeliveryId } from "./ids.ts";

/** The kind of a masked id, as a prefix of its hash. */
export type IdSort = "wamid" | "message" | "event" | "run" | "delivery" | "automation" | "kind" | "listener";

/** An id for logs, such as `event:` and 12 hex digits of its SHA-256. Always the same, so that you can search for it. */
export function maskId(sort: IdSort, id: string): string {
  return `${sort}:${createHash("sha256").update(id).digest("hex").slice(0, 12)}`;
}

/** A wamid for logs, without the phone number inside it. */
export function maskWamid(wamid: string): string {
  return maskId("wamid", wamid);
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const uuidDelivery = /^dlv_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_[0-9a-f]{12}$/;

/** A sender may write a phone number into a UUID: 8 digits in one group, or 10 across groups. One random UUID in ten has such a run. */
function hasPhone(id: string): boolean {
  // Counters have long runs of zeros, phone numbers do not.
  const others = id.replace(/0{7,}/g, "x");
  return /[1-9]\d{7}/.test(others) || /[1-9](?:-?\d){9}/.test(others);
}

/** An id for logs: masked unless it is a UUID without a possible phone number. */
export function shownId(sort: IdSort, id: string): string {
  return uuid.test(id) && !hasPhone(id) ? id : maskId(sort, id);
}

/** Like {@link shownId}. A delivery's id contains the event's id: a UUID as hex, another one as base64url. */
export function shownDeliveryId(id: string): string {
  const groups = uuidDelivery.exec(id);
  return groups !== null && !hasPhone(groups.slice(1).join("-")) ? id : maskId("delivery", id);
}

/** An event kind for logs: a lower-case word with up to three digits. Base64 of digits has capitals, so it never passes. */
export function shownKind(kind: string): string {
  return /^[a-z][a-z0-9._-]{0,63}$/.test(kind) && !/\d(?:[^\d]*\d){3}/.test(kind) ? kind : maskId("kind", kind);
}

/** A name that a client of the control API chose. */
export function shownName(sort: IdSort, name: string): string {
  return maskText(name) === name ? name : maskId(sort, name);
}

const wordText = /wamid\.[A-Za-z0-9+/_=-]{8,}|[A-Za-z0-9+/_-]{11,}={0,2}/gi;
const phoneText = /(?:\+|%2B)?\d(?:[ \t\u00a0().\-/_\u2010-\u2015]|%(?:20|2[89DEF])|\d){6,}\d/gi;
const fewestDigits = 8;
const isPhone = (found: string): boolean => found.replace(/%..|\D/g, "").length >= fewestDigits;
/** Replaces a masked wamid until the phones are masked, because its hash has digits. */
const keptPlace = "\ue000";

/** Replaces wamids and phone-like numbers in text such as a destination's answer or an error, also in base64. */
export function maskText(text: string): string {
  const wamids: string[] = [];
  return text
    .replaceAll(keptPlace, "\ufffd")
    .replace(wordText, (word) => {
      if (!/^wamid\./i.test(word)) return hidesPerson(word) ? "[masked]" : word;
      wamids.push(maskWamid(word));
      return keptPlace;
    })
    .replace(phoneText, (found) => (isPhone(found) ? "[phone]" : found))
    .replaceAll(keptPlace, () => wamids.shift() ?? "");
}

/** Whether `word`, or a part that starts up to three characters later, is base64 of a wamid or phone number. */
function hidesPerson(word: string): boolean {
  for (let from = 0; from < 4; from += 1) {
    const decoded = Buffer.from(word.slice(from), "base64url").toString("latin1");
    if (/wamid\.|\d{8}/i.test(decoded)) return true;
    if (decoded.match(phoneText)?.some(isPhone) === true) return true;
  }
  return false;
}

/** An id for an operator's terminal, masked only when it has a phone number or wamid, because commands take the others. */
export function screenId(sort: IdSort, id: string): string {
  return uuid.test(id) ? id : shownName(sort, id);
}

export function screenDeliveryId(id: string): string {
  const parsed = parseDeliveryId(id);
  return parsed === null || screenId("event", parsed.eventId) === parsed.eventId ? id : maskId("delivery", id);
}
