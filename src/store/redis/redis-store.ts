import type { QuarantinedBody, ReceivedEvent } from "../../event/received.ts";
import type { MessageState } from "../../event/tracking.ts";
import type { AcceptOutcome } from "../planned.ts";
import type { Rules } from "../rules.ts";
import { createAccept } from "./accept.ts";
import { createSharedAlarms } from "./alarms.ts";
import { createAsks } from "./asks.ts";
import { createBeginHydration } from "./begin-hydration.ts";
import { type Commit, type Step, type StepResult, writeBatch } from "./commit.ts";
import { createCursors } from "./cursors.ts";
import { createDeliveries } from "./deliveries.ts";
import { createDuties } from "./duties.ts";
import { createGroupCommit } from "./group-commit.ts";
import { briefOf } from "./hydration-row.ts";
import { createHydrations } from "./hydrations.ts";
import { keysOf, messageName } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import { createLiveSeqs } from "./live-seqs.ts";
import { createNews } from "./news.ts";
import { createParking } from "./parking.ts";
import { createPlanAgain } from "./plan-again.ts";
import { createPlanning } from "./planning.ts";
import { createSubjects } from "./put-subject.ts";
import { createReadHydrations } from "./read-hydrations.ts";
import { createReader } from "./reader.ts";
import { createRegister, createRegisterOne } from "./register.ts";
import { createRegisterSent } from "./register-sent.ts";
import { createReplay } from "./replay.ts";
import { createReplayWalk } from "./replay-walk.ts";
import { createRetention } from "./retention.ts";
import { readScript, type Script } from "./script.ts";
import { createSends } from "./sends.ts";
import { createServiceCalls } from "./service-calls.ts";
import { createSharedSightings } from "./sightings.ts";
import { createStoredEvents } from "./stored-events.ts";
import { createSubjectCache } from "./subject-cache.ts";
import { messageStateOf, readSubjectRow } from "./subject-row.ts";
import { createSweeps } from "./sweeps.ts";
import { createTakeDown } from "./take-down.ts";
import { createTrackedMessages } from "./tracked-messages.ts";
import { createTransact, createVersions, rowJson, type Transact } from "./transact.ts";

export interface RedisStoreHooks {
  committed(tookMs: number, writes: number): void;
  /** An event waits to be planned, and nothing did before it. */
  waiting?(): void;
}

export type RedisStore = ReturnType<typeof createRedisStore>;

/** Operations that Redis does in the time of a usual step, which accepts an event or settles a delivery. */
const operationsOfStep = 5;

const commitParts = ["events", "gathered", "operations", "deliveries", "retention"];
const commitScript = readScript("commit", commitParts);
/** The same for steps that take away: a Redis that is full must not refuse them, or it stays full. */
const clearScript = readScript("commit", commitParts, " flags=allow-oom");

/**
 * The distributed engine's store. Any number of processes have one, each with the same rules; every write is an atomic
 * step in Redis. Writes reject with `StoreUnavailable` while Redis is out of reach, and go on by themselves when it is back.
 * `plansLater`: events about messages are only accepted, and planned by a process that runs `planning`.
 */
export function createRedisStore(link: RedisLink, prefix: string, rules: Rules, hooks: RedisStoreHooks, plansLater = false) {
  const keys = keysOf(prefix);
  const version = createVersions();
  const commitBy = (script: Script, committed: RedisStoreHooks["committed"]): Commit =>
    createGroupCommit<Step, StepResult>({
      write: (steps) => writeBatch(keys.base, steps),
      workOf: ({ operations = 0 }) => Math.max(1, operations / operationsOfStep),
      bytesOf: ({ bytes = 0 }) => bytes,
      send: (list) => link.run((redis) => script.run(redis, `${keys.base}seq`, list)) as Promise<readonly StepResult[]>,
      committed,
    });
  const transactBy = (by: Commit): Transact => {
    const step = createTransact(by, (key) => link.run((redis) => redis.get(key)), version);
    return async (body) => {
      const result = await step(body);
      // What this process changes is read anew by those who listen here.
      changed();
      return result;
    };
  };
  const commit = commitBy(commitScript, hooks.committed);
  const transact = transactBy(commit);
  // That this works is no proof that storing does.
  const clear = commitBy(clearScript, () => {});
  const transactClear = transactBy(clear);
  const cache = createSubjectCache(keys, link);
  const { takeDown, idle } = createTakeDown({
    prefix,
    link,
    version,
    committed: hooks.committed,
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
    takeDown,
    stored: (seq) => news.stored(seq),
  });
  const planning = createPlanning({ keys, link, commit, rules, cache, version });
  const deliveries = createDeliveries({ keys, link, commit, briefOf });
  const events = createStoredEvents(keys, link);
  const { read, inspecting, changed, lastSeq } = createReader(keys, link, createReadHydrations(keys, link, events));
  const live = createLiveSeqs(keys, link);
  const subjectsOf = createSubjects(keys);
  const parking = createParking({ keys, link, rules, transact, version, events });
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
  const planAgain = createPlanAgain({ keys, link, rules, transact, live, events });
  const cursors = createCursors(keys, link, transact);
  const duties = createDuties(keys.base, link);
  const news = createNews(lastSeq);

  return {
    transact,
    read,
    inspecting,
    accept: (event: ReceivedEvent, proxyRoute: string | null = null): Promise<AcceptOutcome> => accept(event, proxyRoute),
    planning,
    quarantine: (body: QuarantinedBody): Promise<number> => quarantine(body),
    ...deliveries,
    ...registering,
    /** Null when nothing is known of the message. */
    async messageState(account: string, wamid: string): Promise<MessageState | null> {
      const row = await link.run((redis) => redis.get(keys.of(messageName(account, wamid))));
      return row === null ? null : messageStateOf(readSubjectRow(rowJson(row)));
    },
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
    sweep: createRetention({ keys, link, transact: transactClear, live, events }),
    /** Writes a mark and waits for it: proves that storing works now. */
    async probe(at: number): Promise<void> {
      await transact((tx) => tx.call("SET", keys.of("probed"), String(at)));
    },
    ...createSharedSightings(keys, link),
    ...createSharedAlarms(keys, link),
    ...createAsks(keys, link),
    ...createServiceCalls({ keys, link, commit }),
    ...createHydrations({ keys, link, rules, transact, events }),
    ...createSweeps({ keys, link, transact, version }),
    trackedMessages: createTrackedMessages(keys, link),
    duty: duties.take,
    onStored: news.onStored,
    async close(): Promise<void> {
      news.close();
      await inspecting.close();
      await duties.close();
      await sends.close();
      await idle();
      await commit.idle();
      await clear.idle();
    },
  };
}
