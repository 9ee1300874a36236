import type { SeqBounds } from "../views.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import type { StoredEvents } from "./event-rows.ts";
import { type Keys, liveBits } from "./keys.ts";

/** Bitmaps per round trip in the search for the first one: the purge leaves many missing ones. */
const mostAtOnce = 1_000;

/** The seqs of stored events, from bitmaps; the purge leaves holes. */
export function createLiveSeqs(keys: Keys, link: RedisLink) {
  const keyOf = (chunk: number): string => keys.of(`live:${chunk}`);
  const chunkOf = (seq: number): number => Math.floor(seq / liveBits);
  /** The first bitmap with a bit when the greatest seq was `last`; bits before it are never set again. */
  let known = { first: 0, last: 0 };

  /** The greatest seq ever assigned; 0 when there was none. */
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
      const chunks = Array.from({ length: Math.min(mostAtOnce, through - chunk + 1) }, (_, index) => chunk + index);
      const found = await runPipeline(link, (commands) => {
        for (const one of chunks) commands.bitpos(keyOf(one), 1);
      });
      const index = found.findIndex((position) => Number(position) >= 0);
      if (index >= 0) return chunk + index;
    }
    return null;
  }

  async function* walk(after: number, before: number, size: number, isBack: boolean): AsyncGenerator<number[]> {
    let to = Math.min(before - 1, await last());
    let from = Math.max(after + 1, 1, known.first * liveBits);
    let gathered: number[] = [];
    // First as many bits as needed without holes, then whole bitmaps.
    for (let wanted = size; from <= to; wanted = liveBits) {
      if (isBack) {
        const start = Math.max(from, to - wanted + 1, chunkOf(to) * liveBits);
        gathered = [...gathered, ...(await read(start, to)).reverse()];
        to = start - 1;
      } else {
        const end = Math.min(to, from + wanted - 1, (chunkOf(from) + 1) * liveBits - 1);
        gathered = [...gathered, ...(await read(from, end))];
        from = end + 1;
      }
      for (; gathered.length >= size; gathered = gathered.slice(size)) yield gathered.slice(0, size);
    }
    if (gathered.length > 0) yield gathered;
  }

  /** Seqs between two (exclusive), smallest first, some at a time. */
  const forth = (after: number, before: number, size: number) => walk(after, before, size, false);
  /** Seqs between two (exclusive), greatest first, some at a time. */
  const back = (after: number, before: number, size: number) => walk(after, before, size, true);

  async function firstOf(seqs: AsyncGenerator<number[]>): Promise<number | null> {
    for await (const [seq] of seqs) if (seq !== undefined) return seq;
    return null;
  }

  return {
    last,
    async bounds(): Promise<SeqBounds> {
      const greatest = await last();
      const first = await firstChunk(chunkOf(greatest));
      if (first === null) return null;
      known = { first, last: greatest };
      const oldest = await firstOf(forth(0, greatest + 1, 1));
      const newest = await firstOf(back(0, greatest + 1, 1));
      return oldest === null || newest === null ? null : { oldest, newest };
    },
    /** Up to `limit` seqs after `start`, smallest first. */
    async after(start: number, limit: number): Promise<number[]> {
      for await (const seqs of forth(start, Number.MAX_SAFE_INTEGER, limit)) return seqs;
      return [];
    },
    back,
    forth,
  };
}

export type LiveSeqs = ReturnType<typeof createLiveSeqs>;

/** What reads of stored events need. */
export interface StoredParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly live: LiveSeqs;
  readonly events: StoredEvents;
}
