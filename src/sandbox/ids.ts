import { uuidv7, type Wamid } from "../model/ids.ts";

export function createPhones(random: Random): () => string {
  const prefixes = ["54911", "5411", "1305", "34", "521"] as const;
  return () => `${random.pick(prefixes)}${String(random.below(10 ** 8)).padStart(8, "0")}`;
}

/**
 * Wamids as seen in the field: base64 that holds the recipient's phone; the rest is the sandbox's
 * choice. Unique within one maker. `phone` is 5 to 15 digits, without the plus.
 */
export function createWamids(random: Random): (phone: string) => Wamid {
  let made = 0;
  return (phone) => {
    if (!/^\d{5,15}$/.test(phone)) throw new RangeError("a phone number is 5 to 15 digits");
    // Framing takes 10 bytes; 39 to 42 bytes in all make 52 to 56 characters of base64.
    const length = Math.min(32 - phone.length, Math.max(18, 29 - phone.length));
    // The counter keeps them unique.
    const drawn = random
      .bytes(8)
      .toString("hex")
      .slice(0, length - 8);
    const name = `${drawn}${made.toString(16).padStart(8, "0")}`;
    made += 1;
    const bytes = Buffer.concat([
      Buffer.from([0x1c, 0x18, phone.length]),
      Buffer.from(phone, "latin1"),
      Buffer.from([0x15, 0x02, 0x00, 0x11, 0x18, name.length]),
      Buffer.from(name.toUpperCase(), "latin1"),
      Buffer.from([0x00]),
    ]);
    const encoded = bytes.toString("base64");
    return `wamid.${random.chance(0.25) ? encoded.replace(/=+$/, "") : encoded}` as Wamid;
  };
}

/**
 * UUIDs that grow and never repeat, even when the clock stands still. `after`: the greatest id of
 * an earlier run.
 */
export function createGrowingIds({
  now,
  random,
  after = "",
}: {
  now: () => number;
  random: Random;
  after?: string;
}): () => string {
  // The time and, after it, the counter of RFC 9562, 6.2, method 1: 12 bits, which overflow into
  // the time.
  let last =
    after === "" ? 0n : (BigInt(`0x${after.replaceAll("-", "").slice(0, 12)}`) + 1n) << 12n;
  return () => {
    const present = BigInt(Math.floor(now())) << 12n;
    last = present > last ? present : last + 1n;
    return uuidv7(Number(last >> 12n), (size) => {
      const bytes = random.bytes(size);
      bytes.writeUInt16BE(Number(last & 0xfffn), 0);
      return bytes;
    });
  };
}

/** Repeatable: the same seed gives the same numbers. Not for secrets. */
export interface Random {
  next(): number;
  below(limit: number): number;
  chance(probability: number): boolean;
  pick<const L extends readonly [unknown, ...unknown[]]>(list: L): L[number];
  bytes(size: number): Buffer;
  /** An independent stream: what one part draws does not shift another. */
  fork(label: string): Random;
}

/** SplitMix32 (Steele, Lea, Flood 2014). */
export function createRandom(seed: number | string): Random {
  let state = hash(String(seed));
  const uint32 = (): number => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  };
  const next = () => uint32() / 2 ** 32;
  const below = (limit: number) => Math.floor(next() * limit);
  return {
    next,
    below,
    chance: (probability) => next() < probability,
    pick: (list) => list[below(list.length)],
    bytes(size) {
      const bytes = Buffer.alloc(size);
      for (let at = 0; at < size; at += 1) bytes[at] = uint32() >>> 24;
      return bytes;
    },
    fork: (label) => createRandom(`${seed}/${label}`),
  };
}

/** The same for the same name; the first is not 0. */
export function digitsOf(name: string, count: number): string {
  const random = createRandom(name);
  return Array.from({ length: count }, (_, place) =>
    place === 0 ? 1 + random.below(9) : random.below(10),
  ).join("");
}

/** FNV-1a, 32 bits. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1)
    value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value;
}
