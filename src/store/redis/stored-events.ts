import type { KeptVerdict } from "../rules.ts";
import type { SeqBounds } from "../views.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import { type EventRow, readEventRow, readVerdicts } from "./event-rows.ts";
import { type Keys, liveBits } from "./keys.ts";
import { rowJson } from "./rows.ts";

export interface StoredEvent extends EventRow {
  readonly seq: number;
}

/** Rows per read: some 200 KB, and half a millisecond of Redis. */
export const rowsAtOnce = 400;

/** Plans kept in memory. They depend on the settings alone, so there are few. */
const mostPlans = 1_000;

/** Reads the rows of events and their plans. */
export function createStoredEvents(keys: Keys, link: RedisLink) {
  let plans = new Map<string, readonly KeptVerdict[]>();

  /** The stored events of at most `rowsAtOnce` seqs, in the same order. */
  async function rows(seqs: readonly number[]): Promise<StoredEvent[]> {
    if (seqs.length === 0) return [];
    const found = await link.run((redis) => redis.mget(seqs.map(keys.event)));
    return found.flatMap((text, index) => (text === null ? [] : [{ seq: seqs[index] as number, ...readEventRow(rowJson(text)) }]));
  }

  return {
    rows,
    async row(seq: number): Promise<StoredEvent | null> {
      return (await rows([seq]))[0] ?? null;
    },
    /** The verdicts of each event; empty for events without a plan. */
    async verdicts(events: readonly Pick<EventRow, "plan">[]): Promise<(readonly KeptVerdict[])[]> {
      const missing = [...new Set(events.flatMap(({ plan }) => (plan === null || plans.has(plan) ? [] : [plan])))];
      const read = new Map(plans);
      if (missing.length > 0) {
        const found = await link.run((redis) => redis.hmget(`${keys.base}plans`, ...missing));
        if (plans.size + missing.length > mostPlans) plans = new Map();
        for (const [index, digest] of missing.entries()) {
          const text = found[index] ?? null;
          read.set(digest, readVerdicts(text));
          if (text !== null) plans.set(digest, readVerdicts(text));
        }
      }
      return events.map(({ plan }) => (plan === null ? [] : (read.get(plan) ?? [])));
    },
    /** The seqs of an event id, one per account that has it. */
    async seqsOf(id: string): Promise<number[]> {
      const accounts = await link.run((redis) => redis.smembers(`${keys.base}accounts`));
      if (accounts.length === 0) return [];
      const found = await link.run((redis) => redis.mget(accounts.map((account) => keys.of(`id:${account}:${id}`))));
      return found.flatMap((seq) => (seq === null ? [] : [Number(seq)])).sort((a, b) => a - b);
    },
  };
}

export type StoredEvents = ReturnType<typeof createStoredEvents>;

/** The seqs of stored events, from bitmaps; retention leaves holes. */
export interface LiveSeqs {
  /** The greatest seq ever assigned; 0 when there was none. */
  last(): Promise<number>;
  bounds(): Promise<SeqBounds>;
  /** Up to `limit` seqs after `start`, smallest first. */
  after(start: number, limit: number): Promise<number[]>;
  /** Seqs between two (exclusive), greatest first, some at a time. */
  back(after: number, before: number, size: number): AsyncGenerator<number[]>;
  /** Seqs between two (exclusive), smallest first, some at a time. */
  forth(after: number, before: number, size: number): AsyncGenerator<number[]>;
}

/** Bitmaps per round trip in the search for the first one: retention leaves many missing ones. */
const mostAtOnce = 1_000;

export function createLiveSeqs(keys: Keys, link: RedisLink): LiveSeqs {
  const keyOf = (chunk: number): string => keys.of(`live:${chunk}`);
  const chunkOf = (seq: number): number => Math.floor(seq / liveBits);
  /** The first bitmap with a bit when the greatest seq was `last`; bits before it are never set again. */
  let known = { first: 0, last: 0 };

  async function last(): Promise<number> {
    const found = Number((await link.run((redis) => redis.get(`${keys.base}seq`))) ?? 0);
    // Redis lost its data, and counts from the beginning.
    if (found < known.last) known = { first: 0, last: found };
    return found;
  }

  /** Seqs from `from` to `to` (inclusive, of one bitmap) that are stored, smallest first. */
  async function read(from: number, to: number): Promise<number[]> {
    const chunk = chunkOf(from);
    const start = chunk * liveBits;
    const firstByte = (from - start) >> 3;
    const bytes = await link.run((redis) => redis.getrangeBuffer(keyOf(chunk), firstByte, (to - start) >> 3));
    const found: number[] = [];
    for (let index = 0; index < bytes.length; index++) {
      const byte = bytes[index] as number;
      if (byte === 0) continue;
      // Redis counts the bits of a byte from the highest.
      for (let bit = 0; bit < 8; bit++) {
        const seq = start + (firstByte + index) * 8 + bit;
        if ((byte & (0x80 >> bit)) !== 0 && seq >= from && seq <= to) found.push(seq);
      }
    }
    return found;
  }

  /** The first bitmap from `known.first` on that has a bit; null: there is none. */
  async function firstChunk(through: number): Promise<number | null> {
    for (let chunk = known.first; chunk <= through; chunk += mostAtOnce) {
      const asked = Array.from({ length: Math.min(mostAtOnce, through - chunk + 1) }, (_, index) => chunk + index);
      const found = await runPipeline(link, (commands) => {
        for (const one of asked) commands.bitpos(keyOf(one), 1);
      });
      const index = found.findIndex((position) => Number(position) >= 0);
      if (index >= 0) return chunk + index;
    }
    return null;
  }

  async function* forth(after: number, before: number, size: number): AsyncGenerator<number[]> {
    const end = Math.min(before, (await last()) + 1);
    let from = Math.max(after + 1, 1, known.first * liveBits);
    let gathered: number[] = [];
    // First as many bits as needed without holes, then whole bitmaps.
    for (let wanted = size; from < end; wanted = liveBits) {
      const to = Math.min(end - 1, from + wanted - 1, (chunkOf(from) + 1) * liveBits - 1);
      const found = await read(from, to);
      from = to + 1;
      gathered = [...gathered, ...found];
      for (; gathered.length >= size; gathered = gathered.slice(size)) yield gathered.slice(0, size);
    }
    if (gathered.length > 0) yield gathered;
  }

  async function* back(after: number, before: number, size: number): AsyncGenerator<number[]> {
    let to = Math.min(before - 1, await last());
    const least = Math.max(after + 1, 1, known.first * liveBits);
    let gathered: number[] = [];
    for (let wanted = size; to >= least; wanted = liveBits) {
      const from = Math.max(least, to - wanted + 1, chunkOf(to) * liveBits);
      const found = (await read(from, to)).reverse();
      to = from - 1;
      gathered = [...gathered, ...found];
      for (; gathered.length >= size; gathered = gathered.slice(size)) yield gathered.slice(0, size);
    }
    if (gathered.length > 0) yield gathered;
  }

  async function firstOf(seqs: AsyncGenerator<number[]>): Promise<number | null> {
    for await (const [seq] of seqs) if (seq !== undefined) return seq;
    return null;
  }

  return {
    last,
    async bounds() {
      const greatest = await last();
      const first = await firstChunk(chunkOf(greatest));
      if (first === null) return null;
      known = { first, last: greatest };
      const oldest = await firstOf(forth(0, greatest + 1, 1));
      const newest = await firstOf(back(0, greatest + 1, 1));
      return oldest === null || newest === null ? null : { oldest, newest };
    },
    async after(start, limit) {
      for await (const seqs of forth(start, Number.MAX_SAFE_INTEGER, limit)) return seqs;
      return [];
    },
    back,
    forth,
  };
}
