import { origins } from "../../model/event.ts";
import { type EventId, isCanonicalUuid, uuidText } from "../../model/ids.ts";
import { dispositions } from "../../model/states.ts";
import { settledState } from "./tables.ts";

/** A word's place in its list. A list grows at its end and is never reordered. */
export const codeOf = { origin: codes(origins), disposition: codes(dispositions) };

function codes<Word extends string>(words: readonly Word[]): Readonly<Record<Word, number>> {
  return Object.fromEntries(words.map((word, code) => [word, code])) as Record<Word, number>;
}

export const wordOfSettled = (code: number): "delivered" | "dead" =>
  code === settledState.dead ? "dead" : "delivered";

const uuidBytes = 16;

/**
 * The 16 bytes of a UUID halve the index. Another text stands behind a byte, or behind two, so that
 * none has 16.
 */
export function packEventId(id: string): Buffer {
  if (isCanonicalUuid(id)) return Buffer.from(id.replaceAll("-", ""), "hex");
  const packed = Buffer.from(`\0${id}`);
  return packed.length === uuidBytes ? Buffer.from(`\u0001\0${id}`) : packed;
}

/** A database makes a text of bytes in a fraction of the time that a buffer takes. */
export function unpackEventId(hex: string): EventId {
  if (hex.length === 2 * uuidBytes) return uuidText(hex) as EventId;
  return Buffer.from(hex, "hex").toString("utf8", hex.startsWith("01") ? 2 : 1) as EventId;
}

export function packHeaders(headers: Readonly<Record<string, string>>): string | null {
  for (const _ in headers) return JSON.stringify(headers);
  return null;
}

export function unpackHeaders(text: string | null): Readonly<Record<string, string>> {
  return text === null ? {} : (JSON.parse(text) as Record<string, string>);
}
