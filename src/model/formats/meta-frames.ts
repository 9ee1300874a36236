import { asciiJson } from "../json.ts";
import { kept } from "../maps.ts";
import { isList, type Place } from "./meta-items.ts";

/** Stand in a frame for what only one item has. No byte is decoded to them. */
const itemMark = "\u0100";
const contactMark = "\u0101";

/**
 * Writes requests with one item each: slices of the received bytes in a frame, one character for each byte. An item gets only
 * its own contact, because other contacts are none of its consumer's business.
 */
export function createFrames(body: Buffer): (part: Place) => Buffer {
  const lookUp = createLookUp(body);
  const text = ({ from, to }: Slice): string => body.toString("latin1", from, to);
  const root = lookUp.members(whole(body));
  const entries = lookUp.elements(root.get("entry") as Slice);
  const object = text(root.get("object") as Slice);
  const requestOf = (entry: string): string => `{"object":${object},"entry":[${entry}]}`;
  const changeOf = ({ entry, change }: Place): Slice =>
    lookUp.elements(lookUp.members(entries[entry] as Slice).get("changes") as Slice)[change as number] as Slice;
  /** The items of a list share a frame; those without a contact have another one. */
  const frames = new Map<string, readonly string[]>();

  const valueFor = (slice: Slice, { list, contact }: Place): string =>
    rewrite(lookUp.members(slice), (key, each) => {
      if (list === undefined) return key !== "contacts" && !(isList(key) && body[each.from] === openArray) ? text(each) : null;
      if (key === list) return `[${itemMark}]`;
      if (key === "contacts") return contact === undefined ? null : `[${contactMark}]`;
      return key === "messaging_product" || key === "metadata" ? text(each) : null;
    });

  function write(part: Place): string {
    const entry = entries[part.entry] as Slice;
    if (part.change === undefined) return requestOf(text(entry));
    const change = changeOf(part);
    const alone = part.isSplit
      ? rewrite(lookUp.members(change), (key, each) => (key === "value" ? valueFor(each, part) : text(each)))
      : text(change);
    return requestOf(rewrite(lookUp.members(entry), (key, each) => (key === "changes" ? `[${alone}]` : text(each))));
  }

  function frameOf(part: Place): readonly string[] {
    const name = `${part.entry} ${part.change} ${part.list} ${part.contact === undefined}`;
    return kept(frames, name, () => write(part).split(/([\u0100\u0101])/));
  }

  return (part) => {
    const { list, index, contact } = part;
    if (list === undefined) return Buffer.from(write(part), "latin1");
    const value = lookUp.members(lookUp.members(changeOf(part)).get("value") as Slice);
    const one = (key: string, place: number | undefined): string =>
      text(lookUp.elements(value.get(key) as Slice)[place as number] as Slice);
    const pieces = frameOf(part).map((piece) =>
      piece === itemMark ? one(list, index) : piece === contactMark ? one("contacts", contact) : piece,
    );
    return Buffer.from(pieces.join(""), "latin1");
  };
}

/** The item of a request with one item: the element of a list, else the value of the change, else the entry. */
export function itemIn(body: Buffer): Buffer | null {
  const list = members(body, whole(body)).get("entry");
  const entry = firstOf(body, list);
  if (entry === undefined) return null;
  let found = entry;
  const change = firstOf(body, objectAt(body, entry)?.get("changes"));
  const value = change === undefined ? undefined : objectAt(body, change)?.get("value");
  if (value !== undefined) {
    found = value;
    for (const [key, slice] of objectAt(body, value) ?? []) if (isList(key)) found = firstOf(body, slice) ?? found;
  }
  return body.subarray(found.from, found.to);
}

const objectAt = (body: Buffer, slice: Slice) => (body[slice.from] === openObject ? members(body, slice) : undefined);
const firstOf = (body: Buffer, slice: Slice | undefined) =>
  slice !== undefined && body[slice.from] === openArray ? elements(body, slice)[0] : undefined;

/** Remembers what it found: the items of a change share their parents. */
function createLookUp(body: Buffer) {
  function remembered<Found>(find: (body: Buffer, slice: Slice) => Found): (slice: Slice) => Found {
    const known = new Map<number, Found>();
    return (slice) => kept(known, slice.from, () => find(body, slice));
  }
  return { members: remembered(members), elements: remembered(elements) };
}

function rewrite(of: ReadonlyMap<string, Slice>, write: (key: string, slice: Slice) => string | null): string {
  const written = [...of].flatMap(([key, slice]) => {
    const value = write(key, slice);
    return value === null ? [] : [`${asciiJson(JSON.stringify(key))}:${value}`];
  });
  return `{${written.join(",")}}`;
}

interface Slice {
  readonly from: number;
  readonly to: number;
}

/*
 * Finds values in a body that `JSON.parse` has accepted, so that they can be passed on as they were written. Nothing here
 * checks the text, and nothing recurses.
 */

function whole(body: Buffer): Slice {
  const from = skipBlanks(body, 0);
  return { from, to: endOfValue(body, from) };
}

function elements(body: Buffer, array: Slice): Slice[] {
  const found: Slice[] = [];
  let at = skipBlanks(body, array.from + 1);
  while (body[at] !== closeArray) {
    const to = endOfValue(body, at);
    found.push({ from: at, to });
    at = afterComma(body, to);
  }
  return found;
}

/** The members of the object at `object`. Of several with one key, the last counts, as for `JSON.parse`. */
function members(body: Buffer, object: Slice): Map<string, Slice> {
  const found = new Map<string, Slice>();
  let at = skipBlanks(body, object.from + 1);
  while (body[at] !== closeObject) {
    const endOfKey = endOfValue(body, at);
    const key = JSON.parse(body.toString("utf8", at, endOfKey)) as string;
    const from = skipBlanks(body, skipBlanks(body, endOfKey) + 1);
    const to = endOfValue(body, from);
    found.set(key, { from, to });
    at = afterComma(body, to);
  }
  return found;
}

const quote = 0x22;
const backslash = 0x5c;
const comma = 0x2c;
const openArray = 0x5b;
const closeArray = 0x5d;
const openObject = 0x7b;
const closeObject = 0x7d;

function skipBlanks(body: Buffer, from: number): number {
  let at = from;
  while ((body[at] as number) <= 0x20) at += 1;
  return at;
}

function afterComma(body: Buffer, to: number): number {
  const at = skipBlanks(body, to);
  return body[at] === comma ? skipBlanks(body, at + 1) : at;
}

function endOfValue(body: Buffer, from: number): number {
  const first = body[from];
  if (first === quote) return endOfString(body, from);
  if (first !== openArray && first !== openObject) {
    let at = from + 1;
    // A number, true, false or null ends before a blank, a comma or a bracket.
    while (at < body.length && isInWord(body[at] as number)) at += 1;
    return at;
  }
  let depth = 0;
  for (let at = from; ; at += 1) {
    const byte = body[at];
    if (byte === quote) at = endOfString(body, at) - 1;
    else if (byte === openArray || byte === openObject) depth += 1;
    else if (byte === closeArray || byte === closeObject) {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
  }
}

function endOfString(body: Buffer, from: number): number {
  let at = from + 1;
  while (body[at] !== quote) at += body[at] === backslash ? 2 : 1;
  return at + 1;
}

const isInWord = (byte: number): boolean => byte > 0x20 && byte !== comma && byte !== closeArray && byte !== closeObject;
