import type { StoredDelivery } from "../../src/model/delivery.ts";
import type { RedisLink } from "../../src/store/redis/client.ts";
import { readDelivery } from "../../src/store/redis/deliveries.ts";
import { readEventRow, stateCode } from "../../src/store/redis/event-rows.ts";
import { keysOf, padSeq } from "../../src/store/redis/keys.ts";
import { createRedisStore, type RedisStore } from "../../src/store/redis/open.ts";
import { rowJson } from "../../src/store/redis/rows.ts";

/** Reads the delivery queues from Redis itself. */
interface QueueReads {
  /** Events due on a route at `now` and not claimed, soonest first. */
  due(route: string, now: number, limit: number): Promise<number[]>;
  /** When the next delivery after `now` becomes due; null: none waits. */
  nextDueAt(route: string, now: number): Promise<number | null>;
  /** The delivery when it is waiting, claimed or not. */
  load(route: string, event: number): Promise<StoredDelivery | null>;
}

export type OpenedStore = RedisStore & QueueReads;

/** A Redis store whose queues a test can read without claiming. */
export function openRedisStore(...parts: Parameters<typeof createRedisStore>): OpenedStore {
  const [link, prefix] = parts;
  return { ...createRedisStore(...parts), ...readQueues(link, prefix) };
}

function readQueues(link: RedisLink, prefix: string): QueueReads {
  const keys = keysOf(prefix);
  return {
    async due(route, now, limit) {
      return (await link.run((redis) => redis.zrangebyscore(keys.of(`due:${route}`), "-inf", now, "LIMIT", 0, limit))).map(Number);
    },
    async nextDueAt(route, now) {
      const [, at] = await link.run((redis) =>
        redis.zrangebyscore(keys.of(`due:${route}`), `(${now}`, "+inf", "WITHSCORES", "LIMIT", 0, 1),
      );
      return at === undefined ? null : Number(at);
    },
    async load(route, event) {
      const [state, ...counts] = await link.run((redis) => redis.hmget(keys.delivery(event, route), "s", "a", "p", "rp"));
      const [row, body] = await link.run((redis) => redis.mgetBuffer(keys.event(event), keys.body(event)));
      if (state !== stateCode("waiting") || !row) return null;
      const { subject } = readEventRow(rowJson(row.toString("utf8")));
      const about = await link.run((redis) => redis.getBuffer(keys.of(subject ?? `h:${event}`)));
      const none = Buffer.alloc(0);
      return readDelivery(route, [
        Buffer.from(padSeq(event)),
        ...counts.map((count) => Buffer.from(count ?? "0")),
        row,
        body ?? none,
        about ?? none,
      ]);
    },
  };
}
