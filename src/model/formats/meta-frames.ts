import { asciiJson } from "../json.ts";
import { isList, type Place } from "./meta-items.ts";
import { elements, members, type Slice, whole } from "./slices.ts";

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
      if (list === undefined) return key !== "contacts" && !(isList(key) && body[each.from] === openList) ? text(each) : null;
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
    let frame = frames.get(name);
    if (frame === undefined) {
      frame = write(part).split(/([\u0100\u0101])/);
      frames.set(name, frame);
    }
    return frame;
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
  slice !== undefined && body[slice.from] === openList ? elements(body, slice)[0] : undefined;

/** Remembers what it found: the items of a change share their parents. */
function createLookUp(body: Buffer) {
  function remembered<Found>(find: (body: Buffer, slice: Slice) => Found): (slice: Slice) => Found {
    const known = new Map<number, Found>();
    return (slice) => {
      const found = known.get(slice.from) ?? find(body, slice);
      known.set(slice.from, found);
      return found;
    };
  }
  return { members: remembered(members), elements: remembered(elements) };
}

const openList = 0x5b;
const openObject = 0x7b;

function rewrite(of: ReadonlyMap<string, Slice>, write: (key: string, slice: Slice) => string | null): string {
  const written = [...of].flatMap(([key, slice]) => {
    const value = write(key, slice);
    return value === null ? [] : [`${asciiJson(JSON.stringify(key))}:${value}`];
  });
  return `{${written.join(",")}}`;
}
