import type { Unplanned } from "../views.ts";
import { type RedisLink, runMulti } from "./client.ts";
import { readEventRow } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import { rowJson } from "./rows.ts";

/** Events that were accepted and that no worker has planned yet. */
export function createReadUnplanned(keys: Keys, link: RedisLink): () => Promise<Unplanned> {
  const list = keys.of("unplanned");

  return async () => {
    // In one piece: workers take from the head.
    const answers = await runMulti(link, (commands) => commands.llen(list).lindex(list, 0));
    const [events, head] = answers as [number, string | null];
    const row = head === null ? null : await link.run((redis) => redis.get(keys.event(head)));
    return { events, oldestAt: row === null ? null : readEventRow(rowJson(row)).receivedAt };
  };
}
