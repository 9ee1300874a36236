import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import Database from "better-sqlite3";
import type { ReceivedEvent } from "../../model/event.ts";
import type { MessageRegistration } from "../../track/registration.ts";
import {
  type DueListener,
  type ObservationsRead,
  type ReleasedEvent,
  type RetentionTimes,
  type Store,
  type StoreHooks,
  StoreUnavailable,
} from "../port.ts";
import { type AcceptOutcome, type DueDelivery, type Rules, sumRegistered } from "../rules.ts";
import { createAccept } from "./accept.ts";
import { createDeliveries } from "./deliveries.ts";
import { isDamage, isStorageFault, reasonOf, translateErrors, watchPlace } from "./faults.ts";
import { holderOf, openForWriting } from "./file.ts";
import { createGroupCommit } from "./group-commit.ts";
import { createHistory, createHistoryUpkeep } from "./history.ts";
import { createHydrationPasses } from "./hydration-passes.ts";
import { createHydrations } from "./hydrations.ts";
import { createInspecting } from "./inspecting.ts";
import { lockFile } from "./lock.ts";
import { createNames } from "./names.ts";
import {
  createAlarms,
  createArrivals,
  createClaims,
  createCursors,
  createPasses,
  createRecentCalls,
  createRequests,
  createSecretUseCounts,
} from "./notes.ts";
import { createParking } from "./parking.ts";
import { createPlanDeliveries, createPlans } from "./plans.ts";
import { createPolls } from "./polls.ts";
import { createRetention } from "./purge.ts";
import { createQuarantine } from "./quarantine.ts";
import { createBrowsing, createReader, createReading } from "./read.ts";
import { createRegister, createRegisterSent } from "./register.ts";
import { createBackfill, createReplay } from "./replay.ts";
import { createSends } from "./sends.ts";
import { createMessages, createRuns, createTrack, stateOf } from "./track.ts";

type Port<T extends Store> = T;
/** The port of both engines, and the port of the local delivery queue. */
export type SqliteStore = Port<ReturnType<typeof openSqliteStore>>;

/**
 * The embedded engine: one file, one writing process, one transaction per turn of the event loop. Throws `StoreRefused`
 * when it cannot open the file. `instance`: the id of this process. Later, writes reject with `StoreUnavailable` while the file cannot be written.
 */
export function openSqliteStore(path: string, rules: Rules, hooks: StoreHooks, instance: string = randomUUID()) {
  const lock = lockFile(path, () => holderOf(path));
  const db = (() => {
    try {
      return openForWriting(path, `process ${process.pid} on ${hostname()}`, instance);
    } catch (error) {
      lock.release();
      throw error;
    }
  })();
  const checkPlace = watchPlace(path, db);
  const inspecting = createInspecting(path);

  const names = createNames(db);
  const plans = createPlans(db);
  const secretUses = createSecretUseCounts(db);
  const history = createHistory(db);
  const messages = createMessages(db);
  const polls = createPolls(db, names);
  const recentCalls = createRecentCalls(db, names);
  const runs = createRuns(db);
  const planDeliveries = createPlanDeliveries(db, names, rules);
  const parking = createParking(db, { names, plans, rules, messages, runs, planDeliveries, history });
  const deliveries = createDeliveries(db, names, history);
  const replay = createReplay(db, names);
  const backfill = createBackfill(db, { names, plans, rules, messages, runs, planDeliveries, history });
  const cursors = createCursors(db);
  const claims = createClaims(db);
  const alarms = createAlarms(db);
  const lastPasses = createPasses(db);
  const register = createRegister(messages, names, parking);
  const sends = createSends(db, names, createRegisterSent({ messages, runs, names, rules, register, parking }));
  const hydrations = createHydrations(db, { names, plans, rules, messages, planDeliveries, history });
  const passes = createHydrationPasses(db, names, hydrations);
  const { accept, quarantine } = createAccept(db, {
    names,
    plans,
    rules,
    planDeliveries,
    secretUses,
    history,
    hydrations,
    parking,
    track: createTrack(messages, runs, rules),
  });

  const read = createReader(db, names);
  const probe = db.prepare<[string]>(
    "INSERT INTO meta (key, value) VALUES ('probed', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
  );
  const releasing = createQuarantine(db, names, accept, history);

  const dueListeners = new Set<DueListener>();
  const news = createArrivals();

  /** Set once SQLite reports damage. Nothing is written after that, because the next write may not detect it. */
  let damage: StoreUnavailable | null = null;

  /** Null while the file is in place and whole. */
  function refusal(): StoreUnavailable | null {
    const wrong = checkPlace();
    if (wrong === null && damage === null) return null;
    const refused = damage ?? new StoreUnavailable(wrong ?? "");
    hooks.failed(refused);
    return refused;
  }

  /** Turns a fault of the disk or file into `StoreUnavailable`. Returns any other error unchanged. */
  function unavailable(error: unknown): unknown {
    if (!(error instanceof Database.SqliteError)) return error;
    const wrong = checkPlace();
    if (wrong === null && !isStorageFault(error)) return error;
    const why = reasonOf(error);
    const fallback = why === null ? `the store cannot be used now: ${error.message}` : `${path} ${why}: ${error.message}`;
    const fault = new StoreUnavailable(wrong ?? fallback, { cause: error });
    if (isDamage(error)) damage ??= fault;
    hooks.failed(fault);
    return fault;
  }

  const writes = createGroupCommit(db, {
    refusal,
    arriving: hooks.arriving ?? (() => false),
    beginning: parking.begin,
    closing() {
      secretUses.write();
      history.write();
    },
    committed(tookMs, count) {
      history.committed();
      hooks.committed(tookMs, count);
      news.publish();
    },
    rolledBack(error) {
      names.forget();
      plans.forget();
      secretUses.forget();
      history.forget();
      // Any other fault belongs to one write (a conflict) and rejects only that.
      unavailable(error);
    },
  });

  function noted<Outcome extends AcceptOutcome | null>(outcome: Outcome): Outcome {
    if (outcome?.result === "accepted") news.note();
    return outcome;
  }

  const registerEach = (registrations: readonly MessageRegistration[], at: number) => registrations.map((one) => register(one, at));

  const purge = createRetention(db, names, createHistoryUpkeep(db));

  const written = inTransactions(writes.run, {
    accept: (event: ReceivedEvent, proxyRoute: string | null = null) => noted(accept(event, proxyRoute)),
    nameRequest: createRequests(db),
    quarantine,
    release: (event: ReleasedEvent) => noted(releasing.release(event)),
    register: (registrations: readonly MessageRegistration[], at: number) => sumRegistered(registerEach(registrations, at)),
    registerEach,
    beginSend: sends.begin,
    settleSend: sends.settle,
    forgetSends: sends.forget,
    moveCursor: cursors.move,
    claimOnce: claims.claimOnce,
    noteAlarm: alarms.note,
    alarmTold: alarms.told,
    notePass: lastPasses.note,
    settle: deliveries.settle,
    settleExchange: deliveries.settle,
    endLeftExchanges: deliveries.endExchanges,
    resume: deliveries.resume,
    endPause: deliveries.endPause,
    retry: replay.retry,
    replay: replay.replay,
    backfill: backfill.plan,
    claimPolls: polls.claim,
    settlePolls: polls.settle,
    addServiceCalls: polls.addCalls,
    noteCall: recentCalls.note,
    beginPass: passes.begin,
    settleTarget: hydrations.settleTarget,
    noteReads: passes.note,
    settleCovered: hydrations.settleCovered,
    endPass: passes.end,
    releaseParked: parking.releaseSome,
    expireParked: (now: number, limit: number) => ({ concluded: parking.expire(now, limit), due: [] }),
    purge(now: number, keep: RetentionTimes, limit: number) {
      history.settle();
      return purge(now, keep, limit);
    },
    sampleGauges: history.sampleGauges,
    addAcknowledged: history.addAcknowledged,
    probe: (at: number) => void probe.run(String(at)),
  });

  const { addAcknowledged, ...rest } = written;
  /** A failed write keeps them for the next one. */
  const flushAcknowledged = () => addAcknowledged().catch(() => {});

  const store = {
    ...rest,
    noteAcknowledged: (tookMs: number, at: number): void => history.acknowledged(tookMs, at, flushAcknowledged),
    read,
    browse: createBrowsing(read, inspecting.pages),
    inspecting,
    isShared: false,
    holdLease: () => true,
    findQuarantined: releasing.look,
    quarantined: releasing.one,
    findSend: sends.find,
    reading: createReading(db),
    findCursor: cursors.find,
    isClaimed: claims.isClaimed,
    listCursors: cursors.list,
    due: deliveries.due,
    nextDueAt: deliveries.nextDueAt,
    load: deliveries.load,
    stopReason: read.stories.stopReason,
    async resume(route: string): Promise<boolean> {
      const resumed = await written.resume(route);
      for (const listener of dueListeners) listener.wake(route);
      return resumed;
    },
    findReplay: replay.look,
    findBackfill: backfill.look,
    countPolls: polls.count,
    serviceCalls: polls.calls,
    recentCalls: recentCalls.since,
    messageState(account: string, wamid: string) {
      const id = names.find("account", account);
      const row = id === null ? undefined : messages.find(id, wamid);
      return row === undefined ? null : stateOf(row);
    },
    waitingAccounts: hydrations.waitingAccounts,
    waitingSince: hydrations.waitingSince,
    covered: hydrations.covered,
    targets: hydrations.targets,
    trackedMessages: passes.trackedMessages,
    callsSince: passes.callsSince,
    announce(due: readonly DueDelivery[]): void {
      for (const listener of dueListeners) listener.offer(due);
    },
    onDue(listener: DueListener): () => void {
      dueListeners.add(listener);
      return () => void dueListeners.delete(listener);
    },
    onStored: news.onStored,
    // One process keeps its observations in memory.
    noteObservations: async (): Promise<void> => {},
    observations: (): ObservationsRead => ({ observations: [], place: null }),
    alarmsInForce: alarms.inForce,
    untoldAlarms: alarms.untold,
    lastPasses: lastPasses.all,
    /** False while the file is deleted or replaced. */
    isInPlace: () => refusal() === null,
    async close(): Promise<void> {
      history.close();
      if (history.hasAcknowledged()) await flushAcknowledged();
      await Promise.all([writes.idle(), inspecting.close()]);
      db.close();
      lock.release();
    },
  };
  return translateErrors(store, unavailable);
}

type Writes = Readonly<Record<string, (...args: never[]) => unknown>>;
type InTransactions<Parts extends Writes> = {
  readonly [Name in keyof Parts]: (...args: Parameters<Parts[Name]>) => Promise<ReturnType<Parts[Name]>>;
};

/** Each call of these functions runs inside the next transaction. */
function inTransactions<Parts extends Writes>(run: <T>(write: () => T) => Promise<T>, parts: Parts): InTransactions<Parts> {
  const each = Object.entries(parts).map(([name, write]) => [name, (...args: never[]) => run(() => write(...args))]);
  return Object.fromEntries(each) as InTransactions<Parts>;
}
