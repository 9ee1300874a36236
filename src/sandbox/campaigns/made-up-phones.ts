import type { Random } from "../random.ts";

/** Of Buenos Aires; eight digits follow. */
const prefix = "+54911";
export const mostStrangers = 10_000_000;

/** The first of `count` phones in a row, none of which leaves the prefix. */
export function firstPhoneOf(count: number, random: Random): string {
  return `${prefix}${String(random.below(10 ** 8 - count + 1)).padStart(8, "0")}`;
}

/** The phone `place` numbers after the first. In 10,000 of them, each number that means something comes once. */
export function phoneAt(firstPhone: string, place: number): string {
  return `+${Number(firstPhone.slice(1)) + place}`;
}
