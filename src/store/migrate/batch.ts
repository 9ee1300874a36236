import { liveBits } from "../redis/keys.ts";

type Word = string | Buffer;

/** What is written in one step of a migration, gathered by key: a call of Redis costs more than what it writes. Keys are without their base. */
export interface Batch {
  set(key: string, value: Word): void;
  /** Redis removes it at `until` (unix ms). */
  expiring(key: string, value: string, until: number): void;
  hash(key: string, ...fields: readonly Word[]): void;
  /** Into a list by score. */
  list(key: string, score: number, member: string): void;
  member(key: string, member: string): void;
  /** An event that is stored. */
  live(seq: number): void;
  /** Bytes of what was put in, more or less. */
  readonly bytes: number;
  /** Each command with the number of its words first, as lua/migrate.lua reads them. */
  words(): Word[];
}

/** Words of a command: Lua has room for some thousands on its stack. */
const mostWords = 4_000;

export function createBatch(base: string): Batch {
  const strings: Word[] = [];
  const passing: Word[][] = [];
  const hashes = new Map<string, Word[]>();
  const lists = new Map<string, Word[]>();
  const sets = new Map<string, Set<string>>();
  const bits = new Map<number, Word[]>();
  let bytes = 0;

  function gather<Key>(to: Map<Key, Word[]>, key: Key, words: readonly Word[]): void {
    const gathered = to.get(key);
    if (gathered === undefined) to.set(key, [...words]);
    else for (const word of words) gathered.push(word);
    for (const word of words) bytes += word.length;
  }

  function* commands(): Generator<Word[]> {
    for (const some of parts(strings)) yield ["MSET", ...some];
    yield* passing;
    for (const [key, words] of hashes) for (const some of parts(words)) yield ["HSET", base + key, ...some];
    for (const [key, words] of lists) for (const some of parts(words)) yield ["ZADD", base + key, ...some];
    for (const [key, members] of sets) for (const some of parts([...members])) yield ["SADD", base + key, ...some];
    for (const [chunk, words] of bits) for (const some of parts(words)) yield ["BITFIELD", `${base}live:${chunk}`, ...some];
  }

  return {
    set(key, value) {
      strings.push(base + key, value);
      bytes += key.length + value.length;
    },
    expiring(key, value, until) {
      passing.push(["SET", base + key, value, "PXAT", String(until)]);
      bytes += key.length + value.length;
    },
    hash: (key, ...fields) => gather(hashes, key, fields),
    list: (key, score, member) => gather(lists, key, [String(score), member]),
    member(key, member) {
      const members = sets.get(key);
      if (members === undefined) sets.set(key, new Set([member]));
      else members.add(member);
    },
    live: (seq) => gather(bits, Math.floor(seq / liveBits), ["SET", "u1", String(seq % liveBits), "1"]),
    get bytes() {
      return bytes;
    },
    words: () => [...commands()].flatMap((command) => [String(command.length), ...command]),
  };
}

function* parts(words: readonly Word[]): Generator<readonly Word[]> {
  for (let from = 0; from < words.length; from += mostWords) yield words.slice(from, from + mostWords);
}
