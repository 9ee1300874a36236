import type { QuarantinedBody, ReceivedEvent } from "../../model/event.ts";
import type { EventId } from "../../model/ids.ts";
import type { MessageState } from "../../model/tracking.ts";
import type { AcceptOutcome, Rules } from "../rules.ts";
import { createAccept, createAcceptOnly } from "./accept.ts";
import { createAsks } from "./asks.ts";
import type { RedisLink } from "./client.ts";
import { createDeliveries } from "./deliveries.ts";
import { createBeginHydration, createHydrations } from "./hydrations.ts";
import { keysOf, messageName } from "./keys.ts";
import { createNews } from "./news.ts";
import { createCursors, createLeaderLeases, createServiceCalls, createSharedAlarms, createSharedSightings } from "./notes.ts";
import { createParking } from "./parking.ts";
import { createPlanning } from "./planning.ts";
import { createPurge } from "./purge.ts";
import { createQuarantine } from "./quarantine.ts";
import { createReader } from "./read.ts";
import { createReadHydrations } from "./read-hydrations.ts";
import { createRegister, createRegisterOne, createRegisterSent } from "./register.ts";
import { createBackfill, createReplay, createReplayWalk } from "./replay.ts";
import { briefOf, createVersions, readSubjectRow, rowJson, stateOf } from "./rows.ts";
import { createSends } from "./sends.ts";
import { createLiveSeqs, createStoredEvents } from "./stored-events.ts";
import { createSubjectCache, createSubjects } from "./subjects.ts";
import { createSweeps, createTrackedMessages } from "./sweeps.ts";
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
  const { acceptOnly, idle } = createAcceptOnly({
    prefix,
    link,
    version,
    committed,
    arriving,
    waiting: () => hooks.waiting?.(),
    stored: (seq) => news.stored(seq),
  });
  const { accept, quarantine } = createAccept({
    base: keys.base,
    commit,
    rules,
    cache,
    version,
    hydrating: createBeginHydration({ keys, link, version }),
    plansLater,
    acceptOnly,
    stored: (seq) => news.stored(seq),
  });
  const planning = createPlanning({ keys, link, commit, rules, cache, version });
  const deliveries = createDeliveries({ keys, link, commit, briefOf });
  const events = createStoredEvents(keys, link);
  const { read, inspecting, changed, lastSeq } = createReader(keys, link, createReadHydrations(keys, link, events));
  const live = createLiveSeqs(keys, link);
  const subjectsOf = createSubjects(keys);
  const parking = createParking({ keys, link, rules, transact, subjectsOf, version, events });
  const register = createRegisterOne({ parking });
  const registering = createRegister({ transact, subjectsOf }, register);
  const sends = createSends({
    keys,
    link,
    transact,
    transactClear,
    registerSent: createRegisterSent({ rules, subjectsOf, register, parking }),
  });
  const replay = createReplay(transact);
  const planAgain = createBackfill({ keys, link, rules, transact, live, events });
  const cursors = createCursors(keys, link, transact);
  const leases = createLeaderLeases(keys.base, link);
  const news = createNews(lastSeq);

  return {
    transact,
    read,
    inspecting,
    accept: (event: ReceivedEvent, proxyRoute: string | null = null): Promise<AcceptOutcome> => accept(event, proxyRoute),
    planning,
    quarantine: (body: QuarantinedBody): Promise<number> => quarantine(body),
    async nameRequest(request: string, id: EventId, _now: number, forMs: number): Promise<EventId> {
      // Redis keeps the time, so clocks need not agree.
      const same = await link.run((redis) => redis.call("SET", keys.of(`req:${request}`), id, "NX", "GET", "PX", String(forMs)));
      return typeof same === "string" ? (same as EventId) : id;
    },
    ...createQuarantine({ keys, link, transact, events, accept }),
    ...deliveries,
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
    findCursor: cursors.find,
    moveCursor: cursors.move,
    ...replay,
    findReplay: createReplayWalk({ keys, link, live, events }),
    findUnplanned: planAgain.look,
    planAgain: planAgain.plan,
    sweep: createPurge({ keys, link, transact: transactClear, live, events }),
    /** Writes a mark, to show that storing works now. */
    async probe(at: number): Promise<void> {
      await transact((tx) => tx.call("SET", keys.of("probed"), String(at)));
    },
    ...createSharedSightings(keys, link),
    ...createSharedAlarms(keys, link),
    ...createAsks(keys, link, transact),
    ...createServiceCalls({ keys, link, commit }),
    ...createHydrations({ keys, link, rules, transact, events }),
    ...createSweeps({ keys, link, transact, version }),
    trackedMessages: createTrackedMessages(keys, link),
    duty: leases.take,
    onStored: news.onStored,
    async close(): Promise<void> {
      news.close();
      await inspecting.close();
      await leases.close();
      await sends.close();
      await idle();
      await steps.idle();
    },
  };
}
