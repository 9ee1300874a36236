/** Randomness that can be repeated: the same seed gives the same numbers on every machine. Not for secrets. */
export interface Random {
  /** From 0 up to, not including, 1. */
  next(): number;
  /** A whole number from 0 up to, not including, `limit`. */
  below(limit: number): number;
  /** True with this probability. */
  chance(probability: number): boolean;
  pick<const L extends readonly [unknown, ...unknown[]]>(list: L): L[number];
  bytes(size: number): Buffer;
  /** An independent stream named `label`: what one part draws does not shift what another draws. */
  fork(label: string): Random;
}

/** SplitMix32 for the state, as in Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014). */
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

/** FNV-1a, 32 bits: spreads seeds that differ in one character. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193);
  return value;
}
