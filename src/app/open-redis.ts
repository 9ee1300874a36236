import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { type ClaimStore, createClaimQueue } from "../deliver/claim-queue.ts";
import { createSharedSession } from "../deliver/session.ts";
import { breakerName } from "../deliver/settings.ts";
import type { Clock } from "../model/clock.ts";
import { isProxyRoute } from "../model/delivery.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import { systemClock } from "../model/system-clock.ts";
import { relayVersion } from "../model/version.ts";
import { type AccountState, quotaReasons } from "../service/limits/account.ts";
import { planCaps, planId } from "../service/limits/caps.ts";
import { quotaUntil } from "../service/limits/stops.ts";
import { type Store, StoreRefused } from "../store/port.ts";
import { type RedisLink, RedisUnavailable } from "../store/redis/client.ts";
import { connectRedis, redisAddress } from "../store/redis/connection.ts";

import { keysOf } from "../store/redis/keys.ts";
import { createRedisStore, type RedisStore } from "../store/redis/open.ts";
import { createReader } from "../store/redis/read.ts";
import { checkReadable, checkSchema, refuseUnfinished } from "../store/redis/schema.ts";
import { createRedisClock, readPresences } from "../store/redis/server.ts";
import { createRedisBreaker, createRedisCaps, createRedisRate, readRedisBreakers } from "../store/redis/shared-limits.ts";
import { createWorkQueue, type WorkQueue } from "../store/redis/work-queue.ts";
import type { RedisSettings } from "../store/settings.ts";
import type { BreakersOf, Engine, OpenOptions, ReadingEngine } from "./engine.ts";

/** A proxy exchange takes ten seconds at most. One that was not settled for this long belongs to a process that died. */
const leftAfterMs = 60_000;

/**
 * A failover to a lagging replica, or a restart with `appendfsync everysec`, may lose events. Redis then gives their
 * numbers to other events, which the attempts of the lost ones would settle. The longest attempt takes five minutes. For
 * that time after each connect, an attempt is settled by the id of its event.
 */
const doubtMs = 360_000;

/**
 * The distributed engine: one connection for the store and the jobs, and the limits that lanes share with those of other
 * processes. While Redis is unavailable, every call fails at once. Throws `StoreRefused` for what no waiting repairs.
 */
export async function openRedis(
  storage: RedisSettings,
  { role, instance = randomUUID(), rules, hooks, clock = createRedisClock(systemClock) }: OpenOptions,
): Promise<Engine> {
  const { prefix } = storage;
  const holder = instance;
  const presence = { id: holder, role, host: hostname(), pid: process.pid, version: relayVersion(), since: clock.now() };
  const doubt = createDoubt(clock);
  let isKnown = false;
  const connection = connectRedis(
    storage,
    { clock, presence },
    {
      async greet(redis) {
        await checkSchema(redis, prefix);
        if (isKnown) doubt.begin();
        isKnown = true;
        await refuseUnfinished(redis, prefix);
      },
      moved(state) {
        if (state.kind === "up") hooks.committed(0, 0);
        else {
          // Already here: a server that refuses the next connection is used before it is greeted.
          if (isKnown) doubt.begin();
          hooks.failed(new RedisUnavailable({ ...state.fault, mayBeDone: false }));
        }
      },
    },
  );
  try {
    await connection.opened();
  } catch (error) {
    await connection.close();
    throw error;
  }
  const work = createWorkQueue({ settings: storage, client: connection.client, clock });
  const storeHooks = { committed: hooks.committed, arriving: hooks.arriving, waiting: work.waiting };
  const redis = createRedisStore(connection, prefix, rules, storeHooks, role === "receive");
  const claims = claimStore(redis, work, doubt.isOn);

  const store: Store = {
    ...redis,
    isShared: true,
    announce: work.announce,
    onDue: work.onDue,
    expireParked: async (now, limit) => ({ concluded: await redis.expireParked(now, limit), due: [] }),
    isInPlace: () => connection.state().kind === "up",
    settleExchange: (settlement) => redis.settle(settlement, "", doubt.isOn()),
    async endLeftExchanges(at, reason) {
      let ended = 0;
      for (const { route } of await redis.read.backlog()) {
        if (isProxyRoute(route)) ended += await redis.abandon(route, at - leftAfterMs, at, reason);
      }
      return ended;
    },
    async resume(route) {
      const resumed = await redis.resume(route);
      work.wake(route);
      return resumed;
    },
    async close() {
      doubt.end();
      await work.close();
      await redis.close();
      await connection.close();
    },
  };
  return {
    store,
    clock,
    backlog: { ...redis.planning, onWaiting: work.onWaiting },
    lanes: {
      queueOf: (route, lane) => createClaimQueue(route, lane, { store: claims, clock, holder }),
      ...createSharedSession({
        clock,
        holder,
        breakerNamed: (name) => createRedisBreaker(connection, prefix, name),
        rateNamed: (name) => createRedisRate(connection, prefix, name),
      }),
    },
    breakersOf: sharedBreakers(connection, prefix),
    processes: () => connection.run((redis) => readPresences(redis, prefix)),
    tryNow: (route) => createRedisBreaker(connection, prefix, breakerName(route)).tryNow(route.to.breaker),
    caps: (account, baseUrl) => createRedisCaps(connection, prefix, account, baseUrl),
  };
}

/** Whether this process may know events that Redis has lost: see `doubtMs`. */
function createDoubt(clock: Clock) {
  let isOn = false;
  let cancel = (): void => {};
  return {
    isOn: () => isOn,
    begin(): void {
      isOn = true;
      cancel();
      cancel = clock.after(doubtMs, () => {
        isOn = false;
      });
    },
    end: () => cancel(),
  };
}

function claimStore(redis: RedisStore, work: WorkQueue, isDoubted: () => boolean): ClaimStore {
  return {
    claim: redis.claim,
    renew: redis.renew,
    handBack: redis.handBack,
    async settle(settlement, holder) {
      const { released } = await redis.settle(settlement, holder, isDoubted());
      const { route, settled } = settlement;
      // Another process makes the next attempt if this one dies.
      if (settled.to === "waiting") work.later(route, settled.nextAt);
      return released;
    },
  };
}

/** The breakers that lanes share. */
function sharedBreakers(link: RedisLink, prefix: string): BreakersOf {
  const closed: BreakerView = { state: "closed", pausedUntil: null, openUntil: null, failingSince: null };
  return async (routes) => {
    const states = await readRedisBreakers(link, prefix, routes.map(breakerName));
    return new Map(routes.map((route) => [route.name, states.get(breakerName(route)) ?? closed]));
  };
}

/** Opens a relay's Redis for reading, as long as a command runs. Throws `StoreRefused` when it does not answer. */
export async function openRedisForReading(storage: RedisSettings): Promise<ReadingEngine> {
  const { prefix } = storage;
  const clock = createRedisClock(systemClock);
  const connection = connectRedis(
    storage,
    { clock, presence: null, name: "wamid-relay command" },
    {
      async greet(redis) {
        await checkReadable(redis, prefix);
        await refuseUnfinished(redis, prefix);
      },
    },
  );
  try {
    const state = await connection.opened();
    // A Redis that refuses writes (full, a replica) can be read.
    if (state.kind === "down") throw new StoreRefused(`${redisAddress(storage)}: ${state.fault.message}`);
  } catch (error) {
    await connection.close();
    throw error;
  }
  const keys = keysOf(prefix);
  const { read, inspecting } = createReader(keys, connection);
  return {
    read,
    inspecting,
    now: clock.now,
    breakersOf: sharedBreakers(connection, prefix),
    processes: () => connection.run((redis) => readPresences(redis, prefix)),
    async quotaStops(account, baseUrl, plan) {
      const known = await createRedisCaps(connection, prefix, account, baseUrl).read();
      if (known === null) return [];
      const state = JSON.parse(known.state) as AccountState;
      if (state.plan !== planId(planCaps[plan])) return [];
      const toUnix = (at: number) => at - known.now + known.wall;
      return quotaReasons.flatMap((reason) => {
        const stop = state.quotas[reason];
        if (stop === null) return [];
        const until = new Date(quotaUntil(stop, clock.now(), toUnix)).toISOString();
        return [{ account, reason, resource: stop.resource, until }];
      });
    },
    async close() {
      await inspecting.close();
      await connection.close();
    },
  };
}
