import type { RedisLink } from "./client.ts";
import type { Keys } from "./keys.ts";
import { rowJson } from "./rows.ts";
import type { Transact } from "./transact.ts";

/** Most names kept; past them the one that has not moved for longest is forgotten. */
const mostCursors = 1_000;

/** How far each of those who listen under a name has come. */
export function createCursors(keys: Keys, link: RedisLink, transact: Transact) {
  const names = keys.of("cursors");
  const rowKey = (name: string): string => keys.of(`cursor:${name}`);

  return {
    /** Null when nobody has listened under this name. */
    async find(name: string): Promise<number | null> {
      const found = await link.run((redis) => redis.get(rowKey(name)));
      return found === null ? null : Number(rowJson(found));
    },
    /** Never goes back: gives where it stands now. */
    move: (name: string, seq: number, at: number): Promise<number> =>
      transact(async (tx) => {
        const stored = await tx.read(rowKey(name));
        if (stored === null && (await link.run((redis) => redis.zcard(names))) >= mostCursors) {
          const [oldest] = await link.run((redis) => redis.zrange(names, "0", "0"));
          if (oldest !== undefined) {
            tx.remove(rowKey(oldest));
            tx.call("ZREM", names, oldest);
          }
        }
        const moved = Math.max(seq, Number(stored ?? seq));
        tx.put(rowKey(name), String(moved));
        tx.call("ZADD", names, String(at), name);
        return moved;
      }),
  };
}
