import type { StoryReading } from "../reading.ts";
import type { Held } from "../views.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import { stateCode } from "./event-rows.ts";
import { type Keys, messageName, runName } from "./keys.ts";
import type { ReadWaiting } from "./read-waiting.ts";

/** What `explain` asks beside the views of events, messages and deliveries. */
export function createReadStories(keys: Keys, link: RedisLink, waiting: ReadWaiting) {
  return {
    ...waiting,
    /** Seqs of the events about a message or run, oldest first. */
    async eventsOf(type: "message" | "run", account: string, key: string, after: number, limit: number): Promise<number[]> {
      const name = type === "message" ? messageName(account, key) : runName(account, key);
      const found = await link.run((redis) => redis.zrange(keys.of(`es:${name}`), `(${after}`, "+inf", "BYSCORE", "LIMIT", 0, limit));
      return found.map(Number);
    },
    /** What a held delivery waits for; null when it is not held any more. */
    async held(event: number, route: string): Promise<Held | null> {
      const [state, order] = await link.run((redis) => redis.hmget(keys.delivery(event, route), "s", "o"));
      if (state !== stateCode("held") || order === null || order === undefined) return null;
      const answers = await runPipeline(link, (commands) =>
        commands.get(`${keys.base}o:${route}:${order}`).zcount(`${keys.base}oh:${route}:${order}`, "-inf", `(${event}`),
      );
      const [behind, ahead] = answers as [string | null, number];
      return behind === null ? null : { behind: Number(behind), ahead };
    },
    /** Why a route's destination is stopped; null when it is not. */
    async stopReason(route: string): Promise<string | null> {
      const found = await link.run((redis) => redis.hget(`${keys.base}stopped`, route));
      return found === null ? null : readStop(found);
    },
  } satisfies StoryReading;
}

export const readStop = (text: string): string => (JSON.parse(text) as { reason: string }).reason;
