import type { EventId } from "../../model/ids.ts";
import type { MessageState } from "../../model/tracking.ts";
import type { Rules } from "../rules.ts";
import { createAccept, createAcceptOnly } from "./accept.ts";
import type { RedisLink } from "./client.ts";
import { createDeliveries } from "./deliveries.ts";
import { createHistoryWriting } from "./history.ts";
import { createHydrationPasses, createTrackedMessages } from "./hydration-passes.ts";
import { createBeginHydration, createHydrations } from "./hydrations.ts";
import { keysOf, messageName } from "./keys.ts";
import {
  createAlarms,
  createArrivals,
  createClaims,
  createCursors,
  createLeaderLeases,
  createObservations,
  createPasses,
  createServiceCalls,
} from "./notes.ts";
import { createParking } from "./parking.ts";
import { createPlanning } from "./planning.ts";
import { createPolls } from "./polls.ts";
import { createPurge } from "./purge.ts";
import { createQuarantine } from "./quarantine.ts";
import { createReader } from "./read.ts";
import { createRegister, createRegisterOne, createRegisterSent } from "./register.ts";
import { createBackfill, createReplay, createReplayWalk } from "./replay.ts";
import { createVersions, readSubjectRow, rowJson, stateOf } from "./rows.ts";

import { createSends } from "./sends.ts";
import { createSubjectCache, createSubjects } from "./subjects.ts";
import { createSteps } from "./transact.ts";

interface RedisStoreHooks {
  committed(tookMs: number, writes: number): void;
  /** See `StoreHooks`. */
  readonly arriving?: (() => boolean) | undefined;
  /** Called when the list of unplanned events is no longer empty. */
  waiting?(): void;
}

export type RedisStore = ReturnType<typeof createRedisStore>;

/**
 * The store of the distributed engine, for any number of processes with the same rules; every write is an atomic step in
 * Redis. Writes reject with `StoreUnavailable` while Redis is unavailable, and work again when it is back. `plansLater`:
 * events about messages are only accepted here, and planned by a process that runs `planning`.
 */
export function createRedisStore(link: RedisLink, prefix: string, rules: Rules, hooks: RedisStoreHooks, plansLater = false) {
  const keys = keysOf(prefix);
  const version = createVersions();
  const { committed, arriving } = hooks;
  // Listeners of this process read again what it changes.
  const steps = createSteps({ keys, link, version, committed, arriving, changed: () => changed() });
  const { commit, transact, transactClear } = steps;
  const cache = createSubjectCache(keys, link);
  const stored = (seq: number): void => arrivals.stored(seq);
  const waiting = (): void => hooks.waiting?.();
  const { acceptOnly, idle } = createAcceptOnly({ base: keys.base, link, version, committed, arriving, waiting, stored });
  const hydrating = createBeginHydration({ keys, link, version });
  const { accept, quarantine } = createAccept({
    base: keys.base,
    commit,
    rules,
    cache,
    version,
    hydrating,
    plansLater,
    acceptOnly,
    stored,
  });
  const { read, inspecting, changed, live, events } = createReader(keys, link);
  const writeParts = { keys, link, rules, transact, live, events };
  const subjectsOf = createSubjects(keys);
  const parking = createParking({ ...writeParts, subjectsOf, version });
  const register = createRegisterOne({ parking });
  const registering = createRegister({ transact, subjectsOf }, register);
  const registerSent = createRegisterSent({ rules, subjectsOf, register, parking });
  const sends = createSends({ keys, link, transact, transactClear, registerSent });
  const history = createHistoryWriting(keys, commit);
  const leases = createLeaderLeases(keys.base, link);
  const arrivals = createArrivals(live.last);

  return {
    transact,
    read,
    browse: read,
    inspecting,
    accept,
    planning: createPlanning({ keys, link, commit, rules, cache, version }),
    quarantine,
    async nameRequest(request: string, id: EventId, _now: number, forMs: number): Promise<EventId> {
      // Redis keeps the time, so clocks need not agree.
      const same = await link.run((redis) => redis.call("SET", keys.of(`req:${request}`), id, "NX", "GET", "PX", String(forMs)));
      return typeof same === "string" ? (same as EventId) : id;
    },
    ...createQuarantine({ ...writeParts, accept }),
    ...createDeliveries(keys, link, commit),
    ...registering,
    /** Null for an unknown message. */
    async messageState(account: string, wamid: string): Promise<MessageState | null> {
      const row = await link.run((redis) => redis.get(keys.of(messageName(account, wamid))));
      return row === null ? null : stateOf(readSubjectRow(rowJson(row)));
    },
    releaseParked: parking.releaseSome,
    expireParked: parking.expire,
    findSend: sends.find,
    beginSend: sends.begin,
    settleSend: sends.settle,
    forgetSends: sends.forget,
    ...createCursors(keys, link, transact),
    ...createClaims(keys, link),
    ...createReplay(transact),
    findReplay: createReplayWalk(writeParts),
    ...createBackfill(writeParts),
    purge: createPurge({ ...writeParts, transact: transactClear }),
    /** Writes a mark, to show that storing works now. */
    async probe(at: number): Promise<void> {
      await transact((tx) => tx.call("SET", keys.of("probed"), String(at)));
    },
    noteAcknowledged: history.noteAcknowledged,
    sampleGauges: history.sampleGauges,
    ...createObservations(keys, link),
    ...createAlarms(keys, link),
    ...createPasses(keys, link),
    ...createPolls(keys, link, transact),
    ...createServiceCalls(keys, link, commit),
    ...createHydrations(writeParts),
    ...createHydrationPasses({ keys, link, transact, version }),
    trackedMessages: createTrackedMessages(keys, link),
    holdLease: leases.take,
    onStored: arrivals.onStored,
    async close(): Promise<void> {
      arrivals.close();
      await inspecting.close();
      await leases.close();
      await sends.close();
      await history.close();
      await idle();
      await steps.idle();
    },
  };
}
