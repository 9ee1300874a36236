import type { Kind } from "../schema/table.ts";

/** Object ids of the types of elements, as the server declares them. */
const elements = { "bigint[]": 20, "smallint[]": 21, "text[]": 25, "bytea[]": 17 };

/**
 * An array in PostgreSQL's binary form. As text, each element is escaped here and parsed again there, and bytes take twice
 * their size.
 */
export function packArray({ array }: Pick<Kind<unknown>, "array">, values: readonly unknown[]): Buffer {
  const element = elements[array as keyof typeof elements];
  const sizes = values.map((value) => sizeOf(array, value));
  const packed = Buffer.allocUnsafe(20 + sizes.reduce((sum, size) => sum + 4 + Math.max(size, 0), 0));
  // Dimensions, whether there may be nulls, the type of elements, their number, the index of the first one.
  for (const [place, head] of [1, 1, element, values.length, 1].entries()) packed.writeInt32BE(head, place * 4);
  let at = 20;
  for (const [place, value] of values.entries()) {
    const size = sizes[place] as number;
    at = packed.writeInt32BE(size, at);
    if (typeof value === "string") at += packed.write(value, at);
    else if (Buffer.isBuffer(value)) at += value.copy(packed, at);
    else if (typeof value === "number") at = size === 2 ? packed.writeInt16BE(value, at) : writeInt64(packed, value, at);
  }
  return packed;
}

/** In bytes; -1: null. */
function sizeOf(array: string, value: unknown): number {
  if (value === null || value === undefined) return -1;
  if (typeof value === "string") return Buffer.byteLength(value);
  if (Buffer.isBuffer(value)) return value.length;
  return array === "smallint[]" ? 2 : 8;
}

/** All numbers are safe integers. A BigInt for each would take five times as long. */
function writeInt64(into: Buffer, value: number, at: number): number {
  const high = Math.floor(value / 0x1_0000_0000);
  into.writeInt32BE(high, at);
  return into.writeUInt32BE(value - high * 0x1_0000_0000, at + 4);
}
