import { Redis } from "ioredis";
import type { ReplayCursor, ReplayFound } from "../../src/store/port.ts";
import { keysOf } from "../../src/store/redis/keys.ts";
import { readSubjectRow, rowJson } from "../../src/store/redis/rows.ts";
import type { DueDelivery, Rules } from "../../src/store/rules.ts";
import { acceptAndPlan } from "./accept-and-plan.ts";
import { type OpenedStore, openRedisStore } from "./redis-queue.ts";
import type { ContractStore, ContractSubject } from "./store-port.ts";

const quiet = { committed: () => {} };
let made = 0;

export function newPrefix(): string {
  made += 1;
  return `contract-${process.pid}-${made}`;
}

export interface SubjectOptions {
  /** One of its own when left out. */
  readonly prefix?: string;
  /** Accepted by one step and planned by the next, as receivers and workers do. */
  readonly plansLater?: boolean;
}

/** The distributed engine's store on the Redis at `url`. */
export async function openRedisSubject(
  url: string,
  rules: Rules,
  { prefix = newPrefix(), plansLater = false }: SubjectOptions = {},
): Promise<ContractSubject> {
  const redis = new Redis(url, { maxRetriesPerRequest: 1 });
  const link = { run: <T>(command: (client: Redis) => Promise<T>) => command(redis) };
  let store = open(rules);
  return {
    store: contractOf(store, redis, prefix),
    async reopen(other = rules) {
      await store.close();
      store = open(other);
      return contractOf(store, redis, prefix);
    },
    async end() {
      await store.close();
      redis.disconnect();
    },
  };

  function open(now: Rules): OpenedStore {
    const opened = openRedisStore(link, prefix, now, quiet, plansLater);
    if (!plansLater) return opened;
    // It has nothing that is to be closed.
    const worker = openRedisStore(link, prefix, now, quiet);
    return {
      ...opened,
      accept: acceptAndPlan(opened, worker),
      async release(event) {
        const outcome = await opened.release(event);
        while ((await worker.planning.planSome(event.receivedAt)).left !== "none");
        return outcome;
      },
    };
  }
}

function contractOf(store: OpenedStore, redis: Redis, prefix: string): ContractStore {
  const keys = keysOf(prefix);
  const row = async (name: string) => {
    const found = await redis.get(keys.of(name));
    return found === null ? null : rowJson(found);
  };
  return {
    ...store,
    settle: async (settlement) => (await store.settle(settlement)).released,
    async replay(filter, at, afterStep) {
      const all = { replayed: 0, due: [] as DueDelivery[] };
      let cursor: ReplayCursor | null = { since: at, event: 0, route: 0 };
      while (cursor !== null) {
        const step: ReplayFound = await store.findReplay(filter, cursor, at, 3);
        const done = await store.replay(step.found, filter.states, at);
        all.replayed += done.replayed;
        all.due.push(...done.due);
        await afterStep?.(done.due);
        cursor = step.cursor;
      }
      return all;
    },
    async replayFiltered(at) {
      const filter = { disposition: "filtered" } as const;
      const all = { replayed: 0, due: [] as DueDelivery[] };
      let cursor: ReplayCursor | null = { since: at, event: 0, route: 0 };
      while (cursor !== null) {
        const step: ReplayFound = await store.findBackfill(filter, cursor, 3);
        const done = await store.backfill([...new Set(step.found.map(({ event }) => event))], filter, at);
        all.replayed += done.replayed;
        all.due.push(...done.due);
        cursor = step.cursor;
      }
      return all;
    },
    audit: (now, filter = {}) => store.inspecting.audit({ now, isRunning: false, mostOffenders: 100, ...filter }, () => {}),
    stopReason: store.read.stories.stopReason,
    series: store.inspecting.series,
    quality: store.inspecting.quality,
    noteAcknowledged: store.noteAcknowledged,
    sampleGauges: store.sampleGauges,
    secretUses: store.read.secretUses,
    seqsOf: store.read.events.seqsOf,
    event: store.read.events.get,
    async delivery(event, route) {
      const [found] = await store.read.deliveries.list({ event, route, limit: 1 });
      return found === undefined ? null : { ...found, attemptHistory: await store.read.deliveries.attempts(found) };
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
  };
}
