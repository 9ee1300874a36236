import { hash } from "node:crypto";
import { type Envelope, otherEnvelope, readTime } from "../envelope.ts";
import { derivedUuid, type EventId } from "../ids.ts";
import { asciiJson, bodyLimits, isObject, parseVerbatim, parseWithin } from "../json.ts";
import type { Format, Item, ItemContent, ReadingOf } from "./format.ts";
import {
  type About,
  canonical,
  contactFinder,
  type Found,
  isList,
  type Json,
  lists,
  metaKinds,
  none,
  otherKind,
  type Place,
  present,
  readItem,
  textOf,
} from "./meta-items.ts";
import { itemAt, type Request, requestAt } from "./meta-split.ts";

/*
 * Webhooks of Meta's Cloud API, and of those who pass them on:
 *
 *   {object, entry: [{id, time?, changes: [{field, value: {metadata, contacts, statuses[], messages[], …}}]}]}
 *
 * Each element of a list in `value` is an item. A field without such lists is one item.
 */

/** For so long, the same item without an id and a time is a repeat. */
const hourMs = 3_600_000;
/** Most items of a request; Meta sends 1,000. */
const mostItems = 10_000;

const listFields: ReadonlySet<unknown> = new Set([
  "messages",
  "calls",
  "message_echoes",
  "smb_message_echoes",
]);
/** Members of `value` that say what its items are about. */
const shared: ReadonlySet<string> = new Set([
  "messaging_product",
  "metadata",
  "contacts",
  ...lists,
]);

interface Part extends Place {
  readonly numbers: readonly string[];
  readonly content: Found;
}

export const meta: Format = {
  // Meta says three megabytes.
  largestBody: 4 * 1024 ** 2,
  items: readMeta,
  raw(body) {
    const text = body.toString("utf8");
    const { object, entry } = JSON.parse(text) as Request;
    const [part] = partsOf(String(object), entry);
    return part && itemAt(parseVerbatim(text) as Request, part);
  },
};

function readMeta(body: Buffer, { source, receivedAt = 0, from }: ReadingOf): readonly Item[] {
  const invalid = (error: string): readonly Item[] => [
    { body, numbers: [], content: { ok: false, error } },
  ];
  const parsed = parseWithin(body, bodyLimits);
  if ("fault" in parsed) return invalid(`the body ${parsed.fault}`);
  const root = parsed.value;
  if (!isObject(root) || typeof root["object"] !== "string" || !Array.isArray(root["entry"])) {
    const other = otherEnvelope(root);
    return invalid(
      other === undefined
        ? "the body is not {object, entry}"
        : `the body is an envelope of ${other}; this source reads Meta's`,
    );
  }
  const parts: Part[] = [];
  for (const part of partsOf(root["object"], root["entry"])) {
    if (parts.length === mostItems)
      return invalid(`the body has more than ${mostItems.toLocaleString("en")} updates`);
    parts.push(part);
  }
  if (parts.length === 0) return invalid("the body has no updates");
  let digest = from?.digest;
  const digestOfAll = (): string => (digest ??= hash("sha256", body));
  const writeOne = parts.length === 1 ? null : createWriting(body);
  return parts.map((part, place) => {
    return {
      body: writeOne === null ? body : writeOne(part),
      numbers: part.numbers,
      content: contentOf(part, { source, receivedAt, digestOfAll, place: from?.place ?? place }),
    };
  });
}

/**
 * Writes requests with one item each in ASCII, and with `\/` for slashes where the request has it,
 * as Meta's do.
 */
function createWriting(body: Buffer): (place: Place) => Buffer {
  const text = body.toString("utf8");
  const request = parseVerbatim(text) as Request;
  const hasEscapedSlashes = text.includes("\\/");
  return (place) => {
    const json = asciiJson(JSON.stringify(requestAt(request, place)));
    return Buffer.from(hasEscapedSlashes ? json.replaceAll("/", "\\/") : json, "latin1");
  };
}

interface Naming {
  readonly source: string;
  readonly receivedAt: number;
  readonly digestOfAll: () => string;
  readonly place: number;
}

function contentOf(
  { content, numbers }: Part,
  { source, receivedAt, digestOfAll, place }: Naming,
): ItemContent {
  if ("error" in content) return { ok: false, error: content.error };
  const { kind, key, at, data, subject } = content;
  // Without a time, the next error has the bytes of the last one.
  const hour = key === null && at === undefined ? `\0${Math.floor(receivedAt / hourMs)}` : "";
  const name = key ?? `${digestOfAll()}\0${place}${hour}`;
  const id = derivedUuid(
    `wamid-relay meta\0${source}\0${numbers[0] ?? ""}\0${kind}\0${name}`,
  ) as EventId;
  const envelope: Envelope = { id, event: kind, createdAt: readTime(at), data };
  return { ok: true, envelope, subject };
}

function* partsOf(object: string, entries: readonly unknown[]): Generator<Part> {
  for (const [entry, raw] of entries.entries()) {
    if (!isObject(raw)) {
      yield { entry, numbers: [], content: { error: `entry[${entry}] is not an object` } };
      continue;
    }
    const { id, time, changes } = raw;
    const account = textOf(id);
    const numbers = account === null ? [] : [account];
    if (!Array.isArray(changes)) {
      // Other products of the same app, and webhooks without values.
      const content =
        object === "whatsapp_business_account" && !Array.isArray(raw["changed_fields"])
          ? missing(entry)
          : otherEntry(object, raw);
      yield { entry, numbers, content };
      continue;
    }
    for (const [change, one] of changes.entries())
      yield* partsOfChange({ entry, change }, one, { account, numbers, time, object });
  }
}

const missing = (entry: number): Found => ({ error: `entry[${entry}].changes is missing` });

function otherEntry(object: string, raw: Json): Found {
  const kind = object === "whatsapp_business_account" ? "meta.changed_fields" : otherKind(object);
  return {
    kind,
    key: null,
    at: raw["time"],
    data: { wabaId: textOf(raw["id"]), raw },
    subject: none,
  };
}

interface Around {
  readonly account: string | null;
  readonly numbers: readonly string[];
  readonly time: unknown;
  readonly object: string;
}

function* partsOfChange(
  place: Pick<Part, "entry" | "change">,
  change: unknown,
  around: Around,
): Generator<Part> {
  const field = isObject(change) ? change["field"] : undefined;
  if (!isObject(change) || typeof field !== "string" || field === "") {
    const error = `entry[${place.entry}].changes[${place.change}] has no field`;
    yield { ...place, numbers: around.numbers, content: { error } };
    return;
  }
  const { value } = change;
  const members = isObject(value) ? value : {};
  const number = isObject(members["metadata"])
    ? textOf(members["metadata"]["phone_number_id"])
    : null;
  // Of a partner's updates, the entry is the business that owns the account.
  const owned = isObject(members["waba_info"]) ? textOf(members["waba_info"]["waba_id"]) : null;
  const numbers = [number, owned, ...around.numbers].filter((id) => id !== null);
  const about = present({ phoneNumberId: number, wabaId: owned ?? around.account });
  if (!listFields.has(field) || lists.every((list) => itemsOf(members[list]).length === 0)) {
    yield { ...place, numbers, content: readChange(field, value, about, around) };
    return;
  }
  const contacts = itemsOf(members["contacts"]);
  const contactOf = contactFinder(contacts);
  for (const list of lists) {
    for (const [index, item] of itemsOf(members[list]).entries()) {
      const contact = contactOf(item);
      const content = readItem(list, item, {
        field,
        about: contact === undefined ? about : { ...about, contact: contacts[contact] as Json },
        where: `${list}[${index}]`,
        time: around.time,
      });
      yield { ...place, list, index, contact, isSplit: true, numbers, content };
    }
  }
  const rest = Object.entries(members).filter(
    ([key, each]) => key !== "contacts" && !(isList(key) && Array.isArray(each)),
  );
  if (rest.every(([key]) => shared.has(key) && !isList(key))) return;
  yield {
    ...place,
    isSplit: true,
    numbers,
    content: readChange(field, Object.fromEntries(rest), about, around),
  };
}

const itemsOf = (list: unknown): readonly unknown[] => (Array.isArray(list) ? list : []);

function readChange(field: string, raw: unknown, about: About, { object, time }: Around): Found {
  const isMeta = object === "whatsapp_business_account";
  const named = isMeta && Object.hasOwn(metaKinds, field) ? metaKinds[field] : undefined;
  const key = `${field}\0${String(time)}\0${hash("sha256", canonical(raw))}`;
  const data = { ...about, field, raw };
  return {
    kind: named ?? otherKind(isMeta ? field : `${object}.${field}`),
    key,
    at: time,
    data,
    subject: none,
  };
}
