import { isList, type Place } from "./meta-items.ts";
import { elements, members, type Slice, whole } from "./slices.ts";

/**
 * Writes requests with one item each: slices of the received bytes in a frame. An item gets only its own contact, because
 * other contacts are none of its consumer's business.
 */
export function createFrames(body: Buffer): (part: Place) => Buffer {
  const lookUp = createLookUp(body);
  const bytes = ({ from, to }: Slice): Buffer => body.subarray(from, to);
  const root = lookUp.members(whole(body));
  const entries = lookUp.elements(root.get("entry") as Slice);
  const object = bytes(root.get("object") as Slice);

  const valueFor = (slice: Slice, { list, index, contact }: Place): Buffer =>
    rewrite(lookUp.members(slice), (key, each) => {
      const one = (place: number): Buffer => inList(bytes(lookUp.elements(each)[place] as Slice));
      if (list === undefined) return key !== "contacts" && !(isList(key) && body[each.from] === openList) ? bytes(each) : null;
      if (key === list) return one(index as number);
      if (key === "contacts") return contact === undefined ? null : one(contact);
      return key === "messaging_product" || key === "metadata" ? bytes(each) : null;
    });

  return (part) => {
    const entry = entries[part.entry] as Slice;
    if (part.change === undefined) return requestOf(object, bytes(entry));
    const ofEntry = lookUp.members(entry);
    const change = lookUp.elements(ofEntry.get("changes") as Slice)[part.change] as Slice;
    const alone = part.isSplit
      ? rewrite(lookUp.members(change), (key, each) => (key === "value" ? valueFor(each, part) : bytes(each)))
      : bytes(change);
    return requestOf(
      object,
      rewrite(ofEntry, (key, each) => (key === "changes" ? inList(alone) : bytes(each))),
    );
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
  const objects = new Map<number, ReadonlyMap<string, Slice>>();
  const arrays = new Map<number, readonly Slice[]>();
  return {
    members(slice: Slice): ReadonlyMap<string, Slice> {
      const found = objects.get(slice.from) ?? members(body, slice);
      objects.set(slice.from, found);
      return found;
    },
    elements(slice: Slice): readonly Slice[] {
      const found = arrays.get(slice.from) ?? elements(body, slice);
      arrays.set(slice.from, found);
      return found;
    },
  };
}

const openList = 0x5b;
const openObject = 0x7b;

/** The object with these members, as `write` gives them; null: left out. */
function rewrite(of: ReadonlyMap<string, Slice>, write: (key: string, slice: Slice) => Buffer | null): Buffer {
  const pieces: Buffer[] = [];
  for (const [key, slice] of of) {
    const value = write(key, slice);
    if (value !== null) pieces.push(Buffer.from(`${pieces.length === 0 ? "{" : ","}${JSON.stringify(key)}:`), value);
  }
  return Buffer.concat([...pieces, Buffer.from(pieces.length === 0 ? "{}" : "}")]);
}

const inList = (value: Buffer): Buffer => Buffer.concat([Buffer.from("["), value, Buffer.from("]")]);

const requestOf = (object: Buffer, entry: Buffer): Buffer =>
  Buffer.concat([Buffer.from('{"object":'), object, Buffer.from(',"entry":['), entry, Buffer.from("]}")]);
