import { createHash } from "node:crypto";
import { statSync } from "node:fs";
import { metadataFault } from "../../model/message.ts";
import { StoreRefused } from "../port.ts";
import { liveBits } from "../redis/keys.ts";
import { type Db, openForReading } from "../sqlite/file.ts";
import { lockFile } from "../sqlite/lock.ts";
import { createNames, type Names } from "../sqlite/names.ts";
import { createBounds } from "../sqlite/query.ts";

/** The file of the embedded engine to migrate. No relay can use it while it is open. */
export interface Source {
  readonly db: Db;
  readonly names: Names;
  readonly path: string;
  /** Changes with every write to the file. */
  readonly identity: string;
  close(): void;
}

/** Throws `StoreRefused` when the file is missing, another program's, of an older schema, or in use by a relay. */
export function openSource(path: string): Source {
  const db = openForReading(path);
  try {
    const holder = db.prepare<[], string>("SELECT value FROM meta WHERE key = 'holder'").pluck();
    const lock = lockFile(path, () => holder.get() ?? null);
    return {
      db,
      names: createNames(db),
      path,
      identity: identityOf(path),
      close() {
        db.close();
        lock.release();
      },
    };
  } catch (error) {
    db.close();
    throw error;
  }
}

/** Every write changes the file or its write-ahead log; reads change neither. */
function identityOf(path: string): string {
  const parts = [path, `${path}-wal`].map((part) => {
    const found = statSync(part, { throwIfNoEntry: false });
    // An empty log counts as none.
    return found === undefined || found.size === 0 ? null : [found.size, found.mtimeMs];
  });
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}

/** Copies the rows of one kind, in batches and in a fixed order. */
export interface Carrier {
  /** What it copies, for people. */
  readonly kind: string;
  /** The places of its first and last row. 0 and 0: no rows. */
  readonly first: number;
  readonly last: number;
  /** Puts the next rows after the place into the batch, as many as fit. Returns the place of the last one, null at the end. */
  next(after: number, batch: Batch): number | null;
}

export interface CarrierParts {
  readonly source: Source;
  /** The version of the next row. */
  readonly version: () => string;
}

/** Rows per batch. Redis is blocked for a millisecond or two. */
export const rowsAtOnce = 120;

/** The places of the first and last row of a table. */
export function boundsOf({ db }: Pick<Source, "db">, table: Parameters<typeof createBounds>[1]): { first: number; last: number } {
  const { oldest, newest } = createBounds(db, table)() ?? { oldest: 0, newest: 0 };
  return { first: oldest, last: newest };
}

/** Metadata to copy. Throws `StoreRefused` when it exceeds the relay's limits: then another program wrote it. */
export function carriedMetadata(metadata: string | null, owner: string): string | null {
  const fault = metadata === null ? null : metadataFault(JSON.parse(metadata) as Record<string, unknown>);
  if (fault === null) return metadata;
  throw new StoreRefused(`the metadata of ${owner} ${fault}; the relay does not take that, so it was not written by one`);
}

type Word = string | Buffer;

/** The writes of one step, gathered by key, because a Redis command costs more than its data. Keys are without their base. */
export interface Batch {
  set(key: string, value: Word): void;
  /** Redis removes it at `until` (unix ms). */
  expiring(key: string, value: string, until: number): void;
  hash(key: string, ...fields: readonly Word[]): void;
  /** Adds to a sorted set. */
  list(key: string, score: number, member: string): void;
  member(key: string, member: string): void;
  /** Marks an event as stored. */
  live(seq: number): void;
  /** The approximate size. */
  readonly bytes: number;
  /** The commands, each after the number of its words, as lua/migrate.lua reads them. */
  words(): Word[];
}

/** Words per command: the stack of Lua holds some thousands. */
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
