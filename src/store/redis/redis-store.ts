import type { QuarantinedBody, ReceivedEvent } from "../../event/received.ts";
import type { AcceptOutcome } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { createAccept } from "./accept.ts";
import { type Argument, createGroupCommit } from "./commit.ts";
import { createDeliveries } from "./deliveries.ts";
import { keysOf } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import { createNews } from "./news.ts";
import { createReader } from "./reader.ts";
import { readScript } from "./script.ts";
import { createSubjectCache } from "./subject-cache.ts";
import { createTransact, createVersions } from "./transact.ts";

export interface RedisStoreHooks {
  committed(tookMs: number, writes: number): void;
}

export type RedisStore = ReturnType<typeof createRedisStore>;

const commitScript = readScript("commit");

/**
 * The distributed engine's store. Any number of processes have one, each with the same rules; every write is an atomic
 * step in Redis. Writes reject with `StoreUnavailable` while Redis is out of reach, and go on by themselves when it is back.
 */
export function createRedisStore(link: RedisLink, prefix: string, rules: Rules, hooks: RedisStoreHooks) {
  const keys = keysOf(prefix);
  const version = createVersions();
  const commit = createGroupCommit(keys.base, {
    send: (list: Argument[]) =>
      link.run((redis) => commitScript.run(redis, `${keys.base}seq`, list)) as Promise<readonly (readonly unknown[])[]>,
    committed: hooks.committed,
  });
  const transact = createTransact(commit, (key) => link.run((redis) => redis.get(key)), version);
  const cache = createSubjectCache();
  const { accept, quarantine } = createAccept({ commit, rules, cache, version, hydrating: () => [] });
  const deliveries = createDeliveries({ keys, link, commit, briefOf: () => null });
  const { read, stats, lastSeq } = createReader(keys, link, () => Promise.resolve(null));
  const news = createNews(lastSeq);

  return {
    transact,
    read,
    stats,
    async accept(event: ReceivedEvent, proxyRoute: string | null = null): Promise<AcceptOutcome> {
      const outcome = await accept(event, proxyRoute);
      if (outcome.result === "accepted") news.stored(outcome.seq);
      return outcome;
    },
    quarantine: (body: QuarantinedBody): Promise<number> => quarantine(body),
    ...deliveries,
    onStored: news.onStored,
    async close(): Promise<void> {
      news.close();
      await commit.idle();
    },
  };
}
