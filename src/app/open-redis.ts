import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import { type ClaimStore, createClaimQueue } from "../deliver/claim-queue.ts";
import { createSharedSession } from "../deliver/session.ts";
import { breakerName } from "../deliver/settings.ts";
import { isProxyRoute } from "../model/proxy-route.ts";
import { systemClock } from "../model/system-clock.ts";
import type { Store } from "../store/port.ts";
import { RedisUnavailable } from "../store/redis/client.ts";
import { connectRedis } from "../store/redis/connection.ts";
import { createRedisStore, type RedisStore } from "../store/redis/open.ts";
import { checkSchema, refuseUnfinished } from "../store/redis/schema.ts";
import { createRedisClock, type Presence } from "../store/redis/server.ts";
import { createRedisBreaker, createRedisCaps, createRedisRate } from "../store/redis/shared-limits.ts";
import { createWorkQueue, type WorkQueue } from "../store/redis/work-queue.ts";
import type { RedisSettings } from "../store/settings.ts";
import type { OpenedStore, OpenParts } from "./open-store.ts";
import { sharedBreakers } from "./shared-breakers.ts";

/** An exchange of a proxy that was not settled for so long belongs to a process that is no more; they take ten seconds. */
const leftAfterMs = 60_000;

/**
 * A Redis that one connects to anew may have lost what it had last: a failover to a replica that had not all of it, a
 * restart with `appendfsync everysec`, an empty one. It gives their numbers to other events, which the attempts of the
 * lost ones would settle. The longest attempt is one of five minutes; until it is over, each is settled by its event's id.
 */
const doubtMs = 360_000;

/**
 * The distributed engine: one connection for the store and the jobs, and what lanes share with those of other processes.
 * Redis need not be there: until it is, everything fails at once. Throws `StoreRefused` for what no waiting repairs.
 */
export async function openRedis(
  storage: RedisSettings,
  role: Presence["role"],
  parts: Omit<OpenParts, "storage" | "role">,
): Promise<OpenedStore> {
  const { rules, hooks, clock = createRedisClock(systemClock) } = parts;
  const holder = randomUUID();
  const presence = { id: holder, role, host: hostname(), pid: process.pid, since: clock.now() };
  /** What this process knows of events by their numbers may be of a Redis that has lost them: see `doubtMs`. */
  let isDoubted = false;
  let isKnown = false;
  let cancelDoubt = (): void => {};
  const connection = connectRedis(
    storage,
    { clock, presence },
    {
      async greet(redis) {
        await checkSchema(redis, storage.prefix);
        doubt();
        isKnown = true;
        await refuseUnfinished(redis, storage.prefix);
      },
      moved(state) {
        if (state.kind === "up") hooks.committed(0, 0);
        else {
          // Before the next connection: of one that refuses, it is asked before it is greeted.
          doubt();
          hooks.failed(new RedisUnavailable({ ...state.fault, mayBeDone: false }));
        }
      },
    },
  );
  function doubt(): void {
    if (!isKnown) return;
    isDoubted = true;
    cancelDoubt();
    cancelDoubt = clock.after(doubtMs, () => {
      isDoubted = false;
    });
  }

  try {
    await connection.opened();
  } catch (error) {
    await connection.close();
    throw error;
  }
  const work = createWorkQueue({ settings: storage, client: connection.client, clock });
  const tell = { committed: hooks.committed, arriving: hooks.arriving, waiting: work.waiting };
  const engine = createRedisStore(connection, storage.prefix, rules, tell, role === "receive");
  const claims = claimStore(engine, work, () => isDoubted);

  const store: Store = {
    ...engine,
    isShared: true,
    announce: work.announce,
    onDue: work.onDue,
    isInPlace: () => connection.state().kind === "up",
    settleExchange: (settlement) => engine.settle(settlement, "", isDoubted),
    async endLeftExchanges(at, reason) {
      let ended = 0;
      for (const { route } of await engine.read.backlog()) {
        if (isProxyRoute(route)) ended += await engine.abandon(route, at - leftAfterMs, at, reason);
      }
      return ended;
    },
    async resume(route) {
      const resumed = await engine.resume(route);
      work.wake(route);
      return resumed;
    },
    async close() {
      cancelDoubt();
      await work.close();
      await engine.close();
      await connection.close();
    },
  };
  const shared = createSharedSession({
    clock,
    holder,
    breakerNamed: (name) => createRedisBreaker(connection, storage.prefix, name),
    rateNamed: (name) => createRedisRate(connection, storage.prefix, name),
  });
  return {
    store,
    clock,
    planning: { ...engine.planning, onWaiting: work.onWaiting },
    lanes: {
      queueOf: (route, lane) => createClaimQueue(route, lane, { store: claims, clock, holder }),
      ...shared,
    },
    breakersOf: sharedBreakers(connection, storage.prefix),
    endPause: (route) => createRedisBreaker(connection, storage.prefix, breakerName(route)).endPause(route.to.breaker),
    caps: (account, baseUrl) => createRedisCaps(connection, storage.prefix, account, baseUrl),
  };
}

function claimStore(engine: RedisStore, work: WorkQueue, isDoubted: () => boolean): ClaimStore {
  return {
    claim: engine.claim,
    renew: engine.renew,
    handBack: engine.handBack,
    async settle(settlement, holder) {
      const { released } = await engine.settle(settlement, holder, isDoubted());
      const { route, settled } = settlement;
      // Whoever lives then is told, should this process not.
      if (settled.to === "waiting") work.later(route, settled.nextAt);
      return released;
    },
  };
}
