import { createHash } from "node:crypto";
import { parseDeliveryId } from "./ids.ts";

/** What a masked id names; it stands before the hash. */
export type IdSort = "wamid" | "message" | "event" | "run" | "delivery" | "automation" | "kind" | "listener";

/** An id for logs: `event:` and 12 hex digits of its SHA-256. The same each time, so that lines about one thing can be found. */
export function maskId(sort: IdSort, id: string): string {
  return `${sort}:${createHash("sha256").update(id).digest("hex").slice(0, 12)}`;
}

/** A wamid for logs, without the phone number inside it. */
export function maskWamid(wamid: string): string {
  return maskId("wamid", wamid);
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const uuidDelivery = /^dlv_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_[0-9a-f]{12}$/;

/** A sender may write a phone number into a UUID: 8 digits in one group, or 10 over several, the first not 0. One real UUID in ten has such a run. */
function hasPhone(id: string): boolean {
  // Counters have many zeros, numbers of people have not.
  const others = id.replace(/0{7,}/g, "x");
  return /[1-9]\d{7}/.test(others) || /[1-9](?:-?\d){9}/.test(others);
}

/** An id as a log line shows it: itself when it is a UUID that cannot hold a phone number, else masked. */
export function shownId(sort: IdSort, id: string): string {
  return uuid.test(id) && !hasPhone(id) ? id : maskId(sort, id);
}

/** The same of a delivery's id, which has the event's id in it: as hex, or as base64url when that is no UUID. */
export function shownDeliveryId(id: string): string {
  const groups = uuidDelivery.exec(id);
  return groups !== null && !hasPhone(groups.slice(1).join("-")) ? id : maskId("delivery", id);
}

/**
 * An event kind as a log line shows it: a lower-case word with up to three digits. Base64 of digits always has capitals,
 * so no encoded phone number passes.
 */
export function shownKind(kind: string): string {
  return /^[a-z][a-z0-9._-]{0,63}$/.test(kind) && !/\d(?:[^\d]*\d){3}/.test(kind) ? kind : maskId("kind", kind);
}

/** A name that a client of the control API gave itself. */
export function shownName(sort: IdSort, name: string): string {
  return maskText(name) === name ? name : maskId(sort, name);
}

const wordText = /wamid\.[A-Za-z0-9+/_=-]{8,}|[A-Za-z0-9+/_-]{11,}={0,2}/gi;
const phoneText = /(?:\+|%2B)?\d(?:[ \t\u00a0().\-/_\u2010-\u2015]|%(?:20|2[89DEF])|\d){6,}\d/gi;
const fewestDigits = 8;
const isPhone = (found: string): boolean => found.replace(/%..|\D/g, "").length >= fewestDigits;
/** Stands for a masked wamid until the phones are masked: the digits of its hash are none. */
const keptPlace = "\ue000";

/** Replaces wamids and phone-like numbers inside free text, such as a downstream's answer or an error; also those in base64. */
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

/** Whether base64 or base64url that begins at any of the first characters of `word` decodes to a wamid or to a phone number. */
function hidesPerson(word: string): boolean {
  for (let from = 0; from < 4; from += 1) {
    const decoded = Buffer.from(word.slice(from), "base64url").toString("latin1");
    if (/wamid\.|\d{8}/i.test(decoded)) return true;
    if (decoded.match(phoneText)?.some(isPhone) === true) return true;
  }
  return false;
}

/** An id on an operator's screen, masked only when it holds a phone number or a wamid: the others are for further commands. */
export function screenId(sort: IdSort, id: string): string {
  return uuid.test(id) ? id : shownName(sort, id);
}

export function screenDeliveryId(id: string): string {
  const parsed = parseDeliveryId(id);
  return parsed === null || screenId("event", parsed.eventId) === parsed.eventId ? id : maskId("delivery", id);
}
