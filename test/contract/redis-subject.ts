import { Redis } from "ioredis";
import { deliveryId, type EventId } from "../../src/event/ids.ts";
import type { DueDelivery } from "../../src/store/planned.ts";
import { readAttempt } from "../../src/store/redis/attempt-row.ts";
import { stateOf } from "../../src/store/redis/deliveries.ts";
import { readEventRow } from "../../src/store/redis/event-row.ts";
import { keysOf } from "../../src/store/redis/keys.ts";
import { readVerdicts } from "../../src/store/redis/plan-texts.ts";
import { createRedisStore, type RedisStore } from "../../src/store/redis/redis-store.ts";
import { readSubjectRow } from "../../src/store/redis/subject-row.ts";
import { rowJson } from "../../src/store/redis/transact.ts";
import type { ReplayCursor, ReplayFound } from "../../src/store/replay-filters.ts";
import type { Rules } from "../../src/store/rules.ts";
import type { ContractStore, ContractSubject } from "./store-port.ts";

const quiet = { committed: () => {} };
let made = 0;

/** The distributed engine's store under a prefix of its own on the Redis at `url`. */
export async function openRedisSubject(url: string, rules: Rules): Promise<ContractSubject> {
  made += 1;
  const prefix = `contract-${process.pid}-${made}`;
  const redis = new Redis(url, { maxRetriesPerRequest: 1 });
  const link = { run: <T>(command: (client: Redis) => Promise<T>) => command(redis) };
  let store = createRedisStore(link, prefix, rules, quiet);
  return {
    store: contractOf(store, redis, prefix),
    async reopen(other = rules) {
      await store.close();
      store = createRedisStore(link, prefix, other, quiet);
      return contractOf(store, redis, prefix);
    },
    async end() {
      await store.close();
      redis.disconnect();
    },
  };
}

function contractOf(store: RedisStore, redis: Redis, prefix: string): ContractStore {
  const keys = keysOf(prefix);
  const row = async (name: string) => {
    const found = await redis.get(keys.of(name));
    return found === null ? null : rowJson(found);
  };
  return {
    ...store,
    settle: async (settlement) => (await store.settle(settlement)).released,
    async replay(filter, at) {
      const all = { replayed: 0, due: [] as DueDelivery[] };
      let cursor: ReplayCursor | null = { since: at, event: 0, route: 0 };
      while (cursor !== null) {
        const step: ReplayFound = await store.findReplay(filter, cursor, at, 3);
        const done = await store.replay(step.found, filter.states, at);
        all.replayed += done.replayed;
        all.due.push(...done.due);
        cursor = step.cursor;
      }
      return all;
    },
    async event(seq) {
      const found = await row(`e:${seq}`);
      if (found === null) return null;
      const event = readEventRow(found);
      const count = async (what: string) => Number((await redis.hget(keys.of(what), String(seq))) ?? 0);
      return {
        ...event,
        event: event.kind,
        transition: event.moved,
        duplicates: await count("dups"),
        conflicts: await count("conflicts"),
        body: (await redis.getBuffer(keys.body(seq))) ?? Buffer.alloc(0),
        verdicts: event.plan === null ? [] : readVerdicts(await redis.hget(keys.of("plans"), event.plan)),
        hydration: (await store.read.events.get(seq))?.hydration ?? null,
      };
    },
    async delivery(seq, route) {
      const found = await redis.hgetallBuffer(keys.delivery(seq, route));
      const text = (name: string) => found[name]?.toString("utf8") ?? null;
      const number = (name: string) => (text(name) === null ? null : Number(text(name)));
      if (text("s") === null) return null;
      const event = readEventRow((await row(`e:${seq}`)) ?? "[]");
      const attempts = number("a") ?? 0;
      return {
        id: deliveryId(event.account as never, event.id as EventId, route as never),
        state: stateOf(text("s") as string),
        attempts,
        replays: number("rp") ?? 0,
        nextAt: number("n"),
        settledAt: number("t"),
        reason: text("r"),
        tries: Array.from({ length: attempts }, (_, n) => readAttempt(n + 1, found[`a${n + 1}`] as Buffer)),
      };
    },
    async message(account, wamid) {
      const found = await row(`m:${account}:${wamid}`);
      if (found === null) return null;
      const { error, ...message } = readSubjectRow(found);
      return { ...message, errorCode: error };
    },
    async run(account, runId) {
      const found = await row(`r:${account}:${runId}`);
      return found === null ? null : { status: readSubjectRow(found).status };
    },
  } as unknown as ContractStore;
}
