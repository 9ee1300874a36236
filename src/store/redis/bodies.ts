import { isUtf8 } from "node:buffer";
import type { Keys } from "./keys.ts";
import type { RedisLink } from "./link.ts";

/**
 * Largest body that stands in the row of its event, after a line's end, in bytes: a key of its own costs Redis some
 * microseconds and 90 bytes, and lists of rows must not carry large ones.
 */
export const inlineBytes = 1024;

const lineEnd = 0x0a;

/** A row with the body that stands in it; null: none does. Text where it can be: bytes among a command's arguments cost the client thrice as much. */
export function rowWithBody(row: string, body: Buffer | null): string | Buffer {
  if (body === null) return row;
  return isUtf8(body) ? `${row}\n${body.toString("utf8")}` : Buffer.concat([Buffer.from(`${row}\n`), body]);
}

/** The bytes after the row's own text; null when they have a key of their own. JSON has no line's end. */
export function inlineBody(row: Buffer): Buffer | null {
  const end = row.indexOf(lineEnd);
  return end < 0 ? null : row.subarray(end + 1);
}

/** Bodies of events; null of those that are not there. */
export async function readBodies(link: RedisLink, keys: Keys, seqs: readonly number[]): Promise<(Buffer | null)[]> {
  if (seqs.length === 0) return [];
  const rows = await link.run((redis) => redis.mgetBuffer(seqs.map(keys.event)));
  const bodies = rows.map((row) => (row === null ? null : inlineBody(row)));
  const apart = seqs.filter((_, index) => rows[index] !== null && bodies[index] === null);
  if (apart.length === 0) return bodies;
  const found = await link.run((redis) => redis.mgetBuffer(apart.map(keys.body)));
  const bySeq = new Map(apart.map((seq, index) => [seq, found[index] ?? null]));
  return seqs.map((seq, index) => bodies[index] ?? bySeq.get(seq) ?? null);
}

export async function readBody(link: RedisLink, keys: Keys, seq: number): Promise<Buffer | null> {
  return (await readBodies(link, keys, [seq]))[0] ?? null;
}
