import { type DeliveryState, deliveryStates } from "../../event/delivery.ts";
import { type EventId, isCanonicalUuid } from "../../event/ids.ts";
import { type Disposition, dispositions } from "../../event/plan.ts";
import { type Origin, origins } from "../../event/received.ts";

/**
 * The numbers that stand for words in the file: a word's place in its list. A list may grow at its
 * end and is never reordered; the partial indexes in the migrations name these numbers.
 */
export const stateCode = numbers(deliveryStates) as Record<DeliveryState, number>;
export const dispositionCode = numbers(dispositions) as Record<Disposition, number>;
export const originCode = numbers(origins) as Record<Origin, number>;

/** The same lists by their DESIGN.md words, for reading back. */
export const stateList = deliveryStates;
export const dispositionList = dispositions;
export const originList = origins;

function numbers(words: readonly string[]): Record<string, number> {
  return Object.fromEntries(words.map((word, code) => [word, code]));
}

/** An event id as it is kept: 16 bytes halve the size of the index, and other text stays text. */
export function packEventId(id: string): Buffer | string {
  return isCanonicalUuid(id) ? Buffer.from(id.replaceAll("-", ""), "hex") : id;
}

export function unpackEventId(value: Uint8Array | string | null): EventId | null {
  if (value === null) return null;
  if (typeof value === "string") return value as EventId;
  const hex = Buffer.from(value).toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}` as EventId;
}

export type SubjectKey = number;

export function messageSubject(seq: number): SubjectKey {
  return seq * 2;
}

export function runSubject(seq: number): SubjectKey {
  return seq * 2 + 1;
}
