import { hash } from "node:crypto";
import { isCanonicalUuid, parseDeliveryId } from "./ids.ts";
import { anySpelling, literal } from "./redact.ts";

/** The kind of a masked id, as a prefix of its hash. */
export type IdSort =
  | "wamid"
  | "message"
  | "event"
  | "run"
  | "delivery"
  | "automation"
  | "kind"
  | "listener";

/**
 * An id for logs, such as `event:` and 12 hex digits of its SHA-256. Always the same, so that you
 * can search for it.
 */
export function maskId(sort: IdSort, id: string): string {
  return `${sort}:${digits(id)}`;
}

const digits = (id: string): string => hash("sha256", id).slice(0, 12);

/** The 12 hex digits of a masked id as a number of 48 bits, which stores index. */
export function maskNumber(id: string): number {
  return Number.parseInt(digits(id), 16);
}

/** The number of a masked id such as `wamid:caa16f1062d2`; null for other text. */
export function parseMask(sort: IdSort, text: string): number | null {
  return text.length === sort.length + 13 &&
    text.startsWith(`${sort}:`) &&
    /:[0-9a-f]{12}$/.test(text)
    ? Number.parseInt(text.slice(-12), 16)
    : null;
}

/** The number of an id that logs mask; null when they show it. */
export function hiddenNumber(id: string): number | null {
  return isShown(id) ? null : maskNumber(id);
}

export function maskWamid(wamid: string): string {
  return maskId("wamid", wamid);
}

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const uuidDelivery =
  /^dlv_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_[0-9a-f]{12}$/;

/**
 * A sender may write a phone number into a UUID: 8 digits in one group, or 10 across groups. One
 * random UUID in ten has such a run.
 */
function hasPhone(id: string): boolean {
  // Counters have long runs of zeros, phone numbers do not.
  const others = id.replace(/0{7,}/g, "x");
  return /[1-9]\d{7}/.test(others) || /[1-9](?:-?\d){9}/.test(others);
}

/** An id for logs: masked unless it is a UUID without a possible phone number. */
export function shownId(sort: IdSort, id: string): string {
  return isShown(id) ? id : maskId(sort, id);
}

const isShown = (id: string): boolean => uuid.test(id) && !hasPhone(id);

/**
 * Like {@link shownId}. A delivery's id contains the event's id: a UUID as hex, another one as
 * base64url.
 */
export function shownDeliveryId(id: string): string {
  const groups = uuidDelivery.exec(id);
  return groups !== null && !hasPhone(groups.slice(1).join("-")) ? id : maskDeliveryId(id);
}

/**
 * An id in a masked answer. A sender can write a phone number into a UUID, but then every tenth
 * random UUID would be masked.
 */
export function answeredId(sort: IdSort, id: string): string {
  return uuid.test(id) ? id : maskId(sort, id);
}

export function answeredDeliveryId(id: string): string {
  return uuidDelivery.test(id) ? id : maskDeliveryId(id);
}

/**
 * `delivery:`, the digits of the event's masked id, and the part that stands for account and route.
 */
function maskDeliveryId(id: string): string {
  const parsed = parseDeliveryId(id);
  return parsed === null
    ? maskId("delivery", id)
    : `delivery:${digits(parsed.eventId)}_${parsed.routeTag}`;
}

/** The masked event id and the route tag in a masked delivery id; null for other text. */
export function parseMaskedDelivery(
  text: string,
): { readonly event: string; readonly routeTag: string } | null {
  const [, event, routeTag] = /^delivery:([0-9a-f]{12})_([0-9a-f]{12})$/.exec(text) ?? [];
  return event === undefined || routeTag === undefined
    ? null
    : { event: `event:${event}`, routeTag };
}

/**
 * An event kind for logs: a lower-case word with up to three digits. Base64 of digits has capitals,
 * so it never passes.
 */
export function shownKind(kind: string): string {
  return /^[a-z][a-z0-9._-]{0,63}$/.test(kind) && !/\d(?:[^\d]*\d){3}/.test(kind)
    ? kind
    : maskId("kind", kind);
}

export function shownName(sort: IdSort, name: string): string {
  return maskText(name) === name ? name : maskId(sort, name);
}

const wordText = /wamid\.[A-Za-z0-9+/_=-]{8,}|[A-Za-z0-9+/_-]{11,}={0,2}/gi;
/** Begins at no digit of `%20`: from each of a megabyte of them, it would search to the end. */
const phoneText =
  /(?:\+|%2B)?(?<!%2(?=[089]))(?!(?<=%)2[089DEF])\d+(?:(?:[ \t\u00a0().\-/_\u2010-\u2015]|%(?:20|2[89DEF]))+\d+)*/gi;
const fewestDigits = 8;
const isPhone = (found: string): boolean => found.replace(/%..|\D/g, "").length >= fewestDigits;
const plainText =
  /(?<![\w+-])(?:[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|20\d\d-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{3}Z)(?![\w+-])/gi;
/**
 * Replaces a masked wamid, a UUID or a time until the phones are masked, because all have digits.
 */
const keptPlace = "\ue000";
const plainPlace = "\ue001";
const knownPlace = "\ue002";
const places = /[\ue000-\ue002]/g;

/** Meta's ids of business numbers and accounts, which the settings need, are not phone numbers. */
const noAccount = /^no account has the number \d+(?: or \d+)*$/;

/**
 * Replaces wamids and phone-like numbers in text such as a destination's answer or an error, also
 * in base64; and what is known.
 */
export function maskText(text: string, known: Known | null = null): string {
  if (noAccount.test(text)) return text;
  const shown: Record<string, string[]> = { [keptPlace]: [], [plainPlace]: [], [knownPlace]: [] };
  const keep = (place: string, as: string): string => {
    shown[place]?.push(as);
    return place;
  };
  const unknown = text.replace(places, "\ufffd");
  const rest =
    known === null
      ? unknown
      : unknown.replace(known.pattern, (found) =>
          keep(knownPlace, known.wamids.has(found) ? maskWamid(found) : "[text]"),
        );
  return rest
    .replace(plainText, (found) =>
      keep(plainPlace, isoTime.test(found) || !hasPhone(found) ? found : "[uuid]"),
    )
    .replace(wordText, (word) => {
      if (/^wamid\./i.test(word)) return keep(keptPlace, maskWamid(word));
      return hidesPerson(word) ? "[masked]" : word;
    })
    .replace(phoneText, (found) => (isPhone(found) ? "[phone]" : found))
    .replace(places, (place) => shown[place]?.shift() ?? "");
}

/**
 * Whether `word`, or a part that starts up to three characters later, is base64 of a wamid or phone
 * number.
 */
function hidesPerson(word: string): boolean {
  for (let from = 0; from < 4; from += 1) {
    const decoded = Buffer.from(word.slice(from), "base64url").toString("latin1");
    if (/wamid\.|\d{8}/i.test(decoded)) return true;
    if (decoded.match(phoneText)?.some(isPhone) === true) return true;
  }
  return false;
}

/** A person's id at Meta that ends in as many digits as stores index. */
export const isUserId = (text: string): boolean =>
  /^[A-Z]{2}\.(?:ENT\.)?[A-Za-z0-9]*\d{4}$/.test(text);

/**
 * The phone number or user id in a wamid, which is Base64 of two bytes, the length of it, and it;
 * null without one.
 */
function contactIn(wamid: string): string | null {
  if (!wamid.startsWith("wamid.")) return null;
  // Three bytes and at most 127 characters are in the first 176.
  const bytes = Buffer.from(wamid.slice(6, 182), "base64");
  const length = bytes[2] ?? 0;
  const contact = bytes.toString("latin1", 3, 3 + length);
  const isContact = /^\d{4,15}$/.test(contact) || isUserId(contact);
  return isContact && contact.length === length ? contact : null;
}

/** The phone number in a wamid, digits only; null without one. */
export function phoneInWamid(wamid: string): string | null {
  const contact = contactIn(wamid);
  return contact === null || isUserId(contact) ? null : contact;
}

/** A search by phone needs at least so many last digits. Stores index exactly so many. */
export const fewestPhoneDigits = 4;

/** Stands before a whole phone number or user id, where digits are the end of a number. */
const wholeMark = "=";

export const wholeContact = (contact: string): string => `${wholeMark}${contact}`;

export function contactMatches(wamid: string, end: string): boolean {
  const contact = contactIn(wamid);
  if (contact === null || end === "") return false;
  const whole = wholeContact(contact);
  return isUserId(contact) ? whole === end : whole.endsWith(end);
}

export function lastContactDigits(wamid: string): string | null {
  return contactIn(wamid)?.slice(-fewestPhoneDigits) ?? null;
}

const isoTime = /^\d{4}-\d{2}-\d{2}T[\d:.]+(Z|[+-]\d{2}:?\d{2})$/;

/** A digest in hex, of which most have eight digits in a row; and the time beside it. */
const digestText =
  /(?<![0-9a-z])(?:[0-9a-f]{40}|[0-9a-f]{64}|[0-9a-f]{96}|[0-9a-f]{128})(?![0-9a-z])|\bt=1\d{9}\b/gi;

/**
 * Unix seconds or milliseconds in a field for a time, which have as many digits as a phone number.
 */
const isUnixTime = (text: string, key: string): boolean =>
  /^time$|timestamp$/i.test(key) && /^1[6-9]\d{8}(?:\d{3})?$/.test(text);

/** Whether a field is known to hold a signature or its time, and `text` has that form. */
function isSignature(text: string, key: string): boolean {
  if (isUnixTime(text, key)) return true;
  if (!/signature|hmac|digest/i.test(key)) return false;
  const rest = text.replace(digestText, " x ");
  return maskText(rest) === rest;
}

/**
 * A JSON value, each text by itself: UUIDs and times, which look like phone numbers inside a text,
 * stay readable.
 */
export function maskValue(
  value: unknown,
  wamid: string | null,
  known: Known | null = null,
): unknown {
  return maskEach(value, (text, key) =>
    text === wamid
      ? maskWamid(text)
      : isCanonicalUuid(text) || isoTime.test(text) || isSignature(text, key)
        ? text
        : maskText(text, known),
  );
}

/**
 * Keys whose values are words of the service. Under any other key, a word may be a name or a
 * message.
 */
const wordKey =
  /(event|status|state|type|kind|code|category|language|direction|channel|currency|limit|id)$|^(field|object)$/i;
const hasFormOfWord = (text: string): boolean => text.length <= 64 && /^[\w.:-]*$/.test(text);
const isWord = (text: string, key: string): boolean => wordKey.test(key) && hasFormOfWord(text);

/**
 * A word of the service, such as a status. In its place a sender may write a text, of which only
 * the length stays.
 */
export function maskWord(word: string): string {
  return hasFormOfWord(word) ? maskText(word) : `[text, ${word.length} characters]`;
}

/**
 * Numbers, times and words of the service stay; wamids and phone numbers are masked; any other text
 * could be what a person wrote, and only its length stays.
 */
export function maskBody(text: string, wamid: string | null): string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return `[body, ${text.length} characters]`;
  }
  return JSON.stringify(maskWritten(value, wamid));
}

export function maskWritten(value: unknown, wamid: string | null, level = 0): unknown {
  const mask = (each: string, key: string): string => {
    if (each === wamid) return maskWamid(each);
    if (
      isoTime.test(each) ||
      isUnixTime(each, key) ||
      (uuid.test(each) && (/id$/i.test(key) || !hasPhone(each)))
    )
      return each;
    const shown = maskText(each);
    return isWord(each, key) || /^(\[\w+\]|wamid:[0-9a-f]{12})$/.test(shown)
      ? shown
      : `[text, ${each.length} characters]`;
  };
  return maskEach(value, mask, "", level);
}

/** The relay accepts bodies of any depth, and this recurses. */
const deepest = 64;

function maskEach(
  value: unknown,
  mask: (text: string, key: string) => string,
  key = "",
  level = 0,
): unknown {
  if (typeof value === "string") return mask(value, key);
  // The seq of an event can be as long as a phone number.
  if (typeof value === "number") {
    const text = String(value);
    return key === "seq" || isUnixTime(text, key) || maskText(text) === text ? value : "[phone]";
  }
  if (typeof value !== "object" || value === null) return value;
  if (level === deepest) return "[nested too deep]";
  if (Array.isArray(value)) return value.map((item) => maskEach(item, mask, key, level + 1));
  return Object.fromEntries(
    Object.entries(value).map(([name, item]) => [
      maskText(name),
      // An application may write names of people there. Of a conflict, a key has a path:
      // `metadata.team`.
      /^metadata\b/.test(name)
        ? maskWritten(item, null, level + 1)
        : maskEach(item, mask, name, level + 1),
    ]),
  );
}

/** What bodies say of people, to be masked in other texts about the same events. */
export interface Known {
  readonly pattern: RegExp;
  readonly wamids: ReadonlySet<string>;
}

/** Longer texts are not looked for: an error or an answer repeats a name, not a letter. */
const longestKnown = 100;
const mostKnown = 500;
/**
 * Of the texts beyond it, no other spellings are looked for: V8 refuses patterns of megabytes, and
 * compiles others for seconds.
 */
const longestSpellings = 64 * 1024;

/**
 * The names and short texts in parsed bodies, as {@link maskBody} hides them; null: there are none.
 */
export function knownIn(bodies: Iterable<unknown>): Known | null {
  const texts = new Set<string>();
  const wamids = new Set<string>();
  const add = (text: string, fewest: number): void => {
    // Without letters and digits it says nothing of a person.
    if (
      text.length >= fewest &&
      text.length <= longestKnown &&
      texts.size < mostKnown &&
      /[\p{L}\p{N}]/u.test(text)
    )
      texts.add(text);
  };
  const note = (text: string, key: string): string => {
    const isWamid = /wamid$/i.test(key);
    if (isWamid) wamids.add(text);
    // Found by its form, it keeps its own mask.
    if (
      /^wamid\./i.test(text) ||
      isoTime.test(text) ||
      isCanonicalUuid(text) ||
      (!isWamid && isWord(text, key))
    )
      return text;
    const isName = /name$/i.test(key);
    add(text.trim(), isName ? 2 : 3);
    if (isName) for (const word of text.split(/\s+/)) add(word, 3);
    return text;
  };
  for (const body of bodies) maskEach(body, note);
  if (texts.size === 0) return null;
  let left = longestSpellings;
  const spelled = [...texts]
    .toSorted((a, b) => a.length - b.length)
    .map((text) => {
      const characters = Array.from(text, left > 0 ? anySpelling : literal);
      left -= characters.join("").length;
      return characters;
    });
  return { pattern: new RegExp(`(?<![A-Za-z0-9])${anyOf(spelled)}(?![A-Za-z0-9])`, "gi"), wamids };
}

/**
 * The longest of texts that begin here. What they begin with alike is looked for once, whatever
 * their number.
 */
function anyOf(texts: readonly (readonly string[])[]): string {
  const longer = texts.filter(({ length }) => length > 0);
  if (longer.length === 0) return "";
  const byFirst = Map.groupBy(longer, ([first]) => first as string);
  const each = [...byFirst].map(
    ([first, group]) => first + anyOf(group.map(([, ...rest]) => rest)),
  );
  return `(?:${each.join("|")})${longer.length < texts.length ? "?" : ""}`;
}

/** Masked, because the text of an error may quote the data that it failed on. */
export const faultText = (error: unknown): string =>
  maskText(error instanceof Error ? error.message : String(error)).slice(0, 300);
