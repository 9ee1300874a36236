import { uuidv7 } from "../model/ids.ts";
import type { Random } from "./random.ts";

/**
 * Makes UUIDs that grow and never repeat ("Ids are UUIDs that grow over time", messaging-service-api.md).
 * `now` gives unix milliseconds; a clock that stands still or steps back does not make ids do so.
 * `after` is the greatest id of an earlier run: new ones are greater.
 */
export function createGrowingIds(options: { readonly now: () => number; readonly random: Random; readonly after?: string }): () => string {
  const { now, random, after } = options;
  let lastTime = after === undefined ? 0 : Number.parseInt(after.replaceAll("-", "").slice(0, 12), 16) + 1;
  let inTime = 0;
  /** A counter in the 12 bits after the time keeps ids of one millisecond growing (RFC 9562, 6.2, method 1). */
  return () => {
    const time = now();
    if (time > lastTime) {
      lastTime = time;
      inTime = 0;
    } else if (inTime === 0xfff) {
      lastTime += 1;
      inTime = 0;
    } else {
      inTime += 1;
    }
    return uuidv7(lastTime, (size) => {
      const bytes = random.bytes(size);
      bytes.writeUInt16BE(inTime, 0);
      return bytes;
    });
  };
}
