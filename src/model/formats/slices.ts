export interface Slice {
  readonly from: number;
  readonly to: number;
}

/*
 * Finds values in a body that `JSON.parse` has accepted, so that they can be passed on as they were written. Nothing here
 * checks the text, and nothing recurses.
 */

export function whole(body: Buffer): Slice {
  const from = skipBlanks(body, 0);
  return { from, to: endOfValue(body, from) };
}

export function elements(body: Buffer, array: Slice): Slice[] {
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
export function members(body: Buffer, object: Slice): Map<string, Slice> {
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
