import { createRandom } from "../ids.ts";
import type { SendingNumber } from "../world/records.ts";

export type Json = Readonly<Record<string, unknown>>;

/** An element of a list in `value`, or a whole `value`. */
export type Update = {
  readonly field: string;
  readonly wabaId: string;
  /** Set when it is a status of this message. */
  readonly wamid: string | null;
} & (
  | {
      readonly list: "statuses" | "messages" | "calls";
      readonly item: unknown;
      readonly number: SendingNumber;
      readonly contact: Json | null;
    }
  | { readonly list: null; readonly value: unknown; readonly time: number }
);

/** Chance by name: what happens to one does not shift what happens to another. */
export function isStruck(fault: string, subject: string, share: number): boolean {
  return share > 0 && createRandom(`${fault}/${subject}`).chance(share);
}

/** The same for the same name; the first is not 0. */
export function digitsOf(name: string, count: number): string {
  const random = createRandom(name);
  return Array.from({ length: count }, (_, place) => (place === 0 ? 1 + random.below(9) : random.below(10))).join("");
}

export const waIdOf = (phone: string): string => phone.replace(/^\+/, "");

export const userIdOf = (phone: string): string => `AR.${digitsOf(`user/${phone}`, 16)}`;
