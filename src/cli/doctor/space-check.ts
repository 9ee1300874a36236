import { statfsSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { StoreReader } from "../../store/sqlite/reader.ts";
import { bytesText, type Finding, fail, ok, spanText, warn } from "./finding.ts";

const dayMs = 86_400_000;
/** A rate seen over less than this says nothing about a day. */
const shortestSpanMs = 3_600_000;

interface Space {
  readonly freeBytes: number;
  /** Of the store, without pages free for use again. */
  readonly usedBytes: number;
  /** What the last day added, at the size of an event so far; null when that cannot be told yet. */
  readonly perDayBytes: number | null;
  /** How long events are kept, in milliseconds. */
  readonly keptMs: number;
}

/** Free disk space against what the store still has to grow until retention takes away as much as comes in. */
export function judgeSpace({ freeBytes, usedBytes, perDayBytes, keptMs }: Space): Finding {
  const check = "disk space";
  const free = `${bytesText(freeBytes)} free, the store has ${bytesText(usedBytes)}`;
  const todo = "make room, or keep events for less time (retention)";
  if (freeBytes < 64 * 1024 ** 2) return fail(check, `${free}: events will soon be answered 503`, todo);
  if (perDayBytes !== null) {
    const toGrow = Math.max(0, perDayBytes * (keptMs / dayMs) - usedBytes);
    const growth = `${free}; grows by ${bytesText(perDayBytes)} a day`;
    const leftMs = perDayBytes === 0 ? Number.POSITIVE_INFINITY : (freeBytes / perDayBytes) * dayMs;
    if (toGrow > freeBytes) {
      const text = `${growth}: full in ${spanText(leftMs)}`;
      return leftMs < 2 * dayMs ? fail(check, text, todo) : warn(check, text, todo);
    }
    if (freeBytes >= 512 * 1024 ** 2) return ok(check, growth);
  }
  return freeBytes < 512 * 1024 ** 2 ? warn(check, free, todo) : ok(check, free);
}

export function checkSpace(path: string, reader: StoreReader, now: number, keptMs: number): Finding {
  const { bavail, bsize } = statfsSync(dirname(resolve(path)));
  const usedBytes = reader.file.usedBytes();
  return judgeSpace({ freeBytes: bavail * bsize, usedBytes, perDayBytes: growthPerDay(reader, usedBytes, now), keptMs });
}

function growthPerDay(reader: StoreReader, usedBytes: number, now: number): number | null {
  const bounds = reader.events.bounds();
  const first = bounds === null ? null : reader.file.receivedAt(bounds.oldest);
  if (bounds === null || first === null) return null;
  const from = Math.max(first, now - dayMs);
  if (now - from < shortestSpanMs) return null;
  const events = bounds.newest - lastBefore(reader, bounds, from);
  const bytesEach = usedBytes / (bounds.newest - bounds.oldest + 1);
  return (events * bytesEach * dayMs) / (now - from);
}

/** The greatest seq received before `at`, by halving: events are stored in the order received. */
function lastBefore(reader: StoreReader, bounds: { oldest: number; newest: number }, at: number): number {
  let low = bounds.oldest - 1;
  let high = bounds.newest;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((reader.file.receivedAt(middle) ?? 0) < at) low = middle;
    else high = middle - 1;
  }
  return low;
}
