import { hostname } from "node:os";
import Database from "better-sqlite3";
import type { Alarm, AlarmChange } from "../../model/alarm.ts";
import type { Settlement } from "../../model/delivery.ts";
import type { QuarantinedBody, ReceivedEvent } from "../../model/event.ts";
import type { Covering, HydrationEnd, ReadMessage, TrackedQuery } from "../../model/hydration.ts";
import type { EventId } from "../../model/ids.ts";
import type { PollClaim, SettledPoll } from "../../model/poll.ts";
import type { SendClaim, SendEnd, SendKey, StoredSend } from "../../model/send.ts";
import type { MessageState } from "../../model/tracking.ts";
import {
  type DueListener,
  type PlanAgainFilter,
  type ReleasedEvent,
  type ReplayCursor,
  type ReplayFilter,
  type RetentionTimes,
  type SightingsRead,
  type Store,
  type StoreHooks,
  StoreUnavailable,
} from "../port.ts";
import { conflictError, type MessageRegistration, type Registered } from "../registration.ts";
import type { AcceptOutcome, DueDelivery, Rules } from "../rules.ts";
import type { CallCount, RecentCall } from "../service-port.ts";
import { createAccept, createQuarantine } from "./accept.ts";
import { createAsks } from "./asks.ts";
import { createDeliveries } from "./deliveries.ts";
import { lockFile, watchPlace } from "./file.ts";
import { createGroupCommit } from "./group-commit.ts";
import { createHydrations } from "./hydrations.ts";
import { createInspecting } from "./inspecting.ts";
import { createNames } from "./names.ts";
import { createCursors, createNews, createProofs, createRecentCalls, createRequests } from "./notes.ts";
import { isDamage, isStorageFault, openForReading, openForWriting, reasonOf, translateErrors } from "./open.ts";
import { createParking } from "./parking.ts";
import { createPlanDeliveries, createPlans } from "./plans.ts";
import { createRetention } from "./purge.ts";
import { createReader, createReading } from "./reader.ts";
import { createRegister, createRegisterSent } from "./register.ts";
import { createPlanAgain, createReplay } from "./replay.ts";
import { createSends } from "./sends.ts";
import { createSweeps } from "./sweeps.ts";
import { createMessages, createRuns, createTrack, stateOf } from "./track.ts";

type Port<T extends Store> = T;
/** The port of both engines, and the port of the local delivery queue. */
export type SqliteStore = Port<ReturnType<typeof openSqliteStore>>;

/**
 * The embedded engine: one file, one writing process, one transaction per turn of the event loop. Throws `StoreRefused`
 * when it cannot open the file. Later, writes reject with `StoreUnavailable` while the file cannot be written.
 */
export function openSqliteStore(path: string, rules: Rules, hooks: StoreHooks) {
  const lock = lockFile(path, () => holderOf(path));
  const db = (() => {
    try {
      return openForWriting(path, `process ${process.pid} on ${hostname()}`);
    } catch (error) {
      lock.release();
      throw error;
    }
  })();
  const checkPlace = watchPlace(path, db);
  const inspecting = createInspecting(path);

  const names = createNames(db);
  const plans = createPlans(db);
  const proofs = createProofs(db);
  const messages = createMessages(db);
  const asks = createAsks(db, names);
  const recentCalls = createRecentCalls(db, names);
  const runs = createRuns(db);
  const planDeliveries = createPlanDeliveries(db, names, rules);
  const parking = createParking(db, { names, plans, rules, messages, runs, planDeliveries });
  const deliveries = createDeliveries(db, names);
  const replay = createReplay(db, names);
  const planAgain = createPlanAgain(db, { names, plans, rules, messages, runs, planDeliveries });
  const sweep = createRetention(db, names);
  const cursors = createCursors(db);
  const register = createRegister(messages, names, parking);
  const sends = createSends(db, names, createRegisterSent({ messages, runs, names, rules, register, parking }));
  const hydrations = createHydrations(db, { names, plans, rules, messages, planDeliveries });
  const sweeps = createSweeps(db, names, hydrations);
  const { accept, quarantine } = createAccept(db, {
    names,
    plans,
    rules,
    planDeliveries,
    proofs,
    hydrations,
    parking,
    track: createTrack(messages, runs, rules),
  });

  const nameRequest = createRequests(db);
  const releasing = createQuarantine(db, names, accept);

  const dueListeners = new Set<DueListener>();
  const news = createNews();

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
    const said = why === null ? `the store cannot be used now: ${error.message}` : `${path} ${why}: ${error.message}`;
    const fault = new StoreUnavailable(wrong ?? said, { cause: error });
    if (isDamage(error)) damage ??= fault;
    hooks.failed(fault);
    return fault;
  }

  const writes = createGroupCommit(db, {
    refusal,
    arriving: hooks.arriving ?? (() => false),
    beginning: parking.begin,
    closing: proofs.write,
    committed(tookMs, count) {
      hooks.committed(tookMs, count);
      news.tell();
    },
    rolledBack(error) {
      names.forget();
      plans.forget();
      proofs.forget();
      // Any other fault belongs to one write (a conflict) and rejects only that.
      unavailable(error);
    },
  });

  const store = {
    read: createReader(db, names),
    inspecting,
    isShared: false,
    duty: () => true,
    accept: (event: ReceivedEvent, proxyRoute: string | null = null): Promise<AcceptOutcome> =>
      writes.run(() => {
        const outcome = accept(event, proxyRoute);
        if (outcome.result === "accepted") news.note();
        return outcome;
      }),
    nameRequest: (request: string, id: EventId, now: number, forMs: number): Promise<EventId> =>
      writes.run(() => nameRequest(request, id, now, forMs)),
    quarantine: (body: QuarantinedBody): Promise<number> => writes.run(() => quarantine(body)),
    findQuarantined: releasing.look,
    quarantined: releasing.one,
    release: (event: ReleasedEvent): Promise<AcceptOutcome | null> =>
      writes.run(() => {
        const outcome = releasing.release(event);
        if (outcome?.result === "accepted") news.note();
        return outcome;
      }),
    /** All or none: rejects with a `conflict` when one contradicts what is stored. */
    register: (registrations: readonly MessageRegistration[], at: number): Promise<{ created: number; due: DueDelivery[] }> =>
      writes.run(() => {
        const due: DueDelivery[] = [];
        let created = 0;
        for (const [index, registration] of registrations.entries()) {
          const registered = register(registration, at);
          if (registered.result === "conflict") throw conflictError(registered.conflicts, registrations.length > 1 ? index : undefined);
          if (registered.result === "created") created += 1;
          due.push(...registered.due);
        }
        return { created, due };
      }),
    /** Each on its own, in one transaction: a conflict does not affect the others. */
    registerEach: (registrations: readonly MessageRegistration[], at: number): Promise<Registered[]> =>
      writes.run(() => registrations.map((registration) => register(registration, at))),
    findSend: (key: SendKey): StoredSend | null => sends.find(key),
    beginSend: (key: SendKey, claim: SendClaim): Promise<StoredSend | null> => writes.run(() => sends.begin(key, claim)),
    settleSend: (key: SendKey, ended: SendEnd): Promise<readonly DueDelivery[]> => writes.run(() => sends.settle(key, ended)),
    forgetSends: (before: number, limit: number): Promise<number> => writes.run(() => sends.forget(before, limit)),
    reading: createReading(db),
    findCursor: cursors.find,
    moveCursor: (name: string, seq: number, at: number): Promise<number> => writes.run(() => cursors.move(name, seq, at)),
    due: deliveries.due,
    nextDueAt: deliveries.nextDueAt,
    load: deliveries.load,
    stopReason: deliveries.stopReason,
    settle: (settlement: Settlement): Promise<number | null> => writes.run(() => deliveries.settle(settlement)),
    settleExchange: (settlement: Settlement): Promise<number | null> => writes.run(() => deliveries.settle(settlement)),
    endLeftExchanges: (at: number, reason: string): Promise<number> => writes.run(() => deliveries.endExchanges(at, reason)),
    async resume(route: string): Promise<boolean> {
      const resumed = await writes.run(() => deliveries.resume(route));
      for (const listener of dueListeners) listener.wake(route);
      return resumed;
    },
    endPause: (route: string, now: number): Promise<boolean> => writes.run(() => deliveries.endPause(route, now)),
    retry: (event: number, route: string, at: number) => writes.run(() => replay.retry(event, route, at)),
    findReplay: (filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number) => replay.look(filter, cursor, now, limit),
    replay: (found: readonly { event: number; route: string }[], states: ReplayFilter["states"], at: number) =>
      writes.run(() => replay.replay(found, states, at)),
    findUnplanned: (filter: PlanAgainFilter, cursor: ReplayCursor, limit: number) => planAgain.look(filter, cursor, limit),
    planAgain: (events: readonly number[], filter: PlanAgainFilter, at: number) => writes.run(() => planAgain.plan(events, filter, at)),
    claimPolls: (claim: PollClaim) => writes.run(() => asks.claim(claim)),
    settlePolls: (settled: readonly SettledPoll[]): Promise<void> => writes.run(() => asks.settle(settled)),
    countPolls: asks.count,
    serviceCalls: asks.calls,
    addServiceCalls: (counts: readonly CallCount[]): Promise<void> => writes.run(() => asks.addCalls(counts)),
    recentCalls: recentCalls.since,
    noteCall: (account: string, call: RecentCall): Promise<void> => writes.run(() => recentCalls.note(account, call)),
    messageState(account: string, wamid: string): MessageState | null {
      const id = names.find("account", account);
      const row = id === null ? undefined : messages.find(id, wamid);
      return row === undefined ? null : stateOf(row);
    },
    waitingAccounts: hydrations.waitingAccounts,
    waitingSince: hydrations.waitingSince,
    covered: hydrations.covered,
    targets: hydrations.targets,
    trackedMessages: (account: string, query: TrackedQuery) => sweeps.trackedMessages(account, query),
    callsSince: sweeps.callsSince,
    beginPass: (account: string, now: number) => writes.run(() => sweeps.begin(account, now)),
    settleTarget: (sweep: Covering, target: string, wamid: string | null, now: number) =>
      writes.run(() => hydrations.settleTarget(sweep, target, wamid, now)),
    noteReads: (sweep: Covering, asked: number, read: readonly ReadMessage[]): Promise<void> =>
      writes.run(() => sweeps.note(sweep, asked, read)),
    settleCovered: (sweep: Covering, end: HydrationEnd, now: number, limit: number) =>
      writes.run(() => hydrations.settleCovered(sweep, end, now, limit)),
    endPass: (sweep: Covering, now: number): Promise<void> => writes.run(() => sweeps.end(sweep, now)),
    releaseParked: (now: number, limit: number) => writes.run(() => parking.releaseSome(now, limit)),
    expireParked: (now: number, limit: number): Promise<number> => writes.run(() => parking.expire(now, limit)),
    sweep: (now: number, keep: RetentionTimes, limit: number) => writes.run(() => sweep(now, keep, limit)),
    announce(due: readonly DueDelivery[]): void {
      for (const listener of dueListeners) listener.offer(due);
    },
    onDue(listener: DueListener): () => void {
      dueListeners.add(listener);
      return () => void dueListeners.delete(listener);
    },
    onStored: news.onStored,
    noteSightings: async (): Promise<void> => {},
    sightings: (): SightingsRead => ({ sightings: [], place: null }),
    alarmsInForce: (): readonly Alarm[] => [],
    noteAlarm: (): boolean => true,
    untoldAlarms: (): readonly AlarmChange[] => [],
    alarmTold: (): void => {},
    /** False while the file is deleted or replaced. */
    isInPlace: (): boolean => refusal() === null,
    probe: async (at: number): Promise<void> => {
      await writes.run(() =>
        db
          .prepare("INSERT INTO meta (key, value) VALUES ('probed', ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value")
          .run(String(at)),
      );
    },
    async close(): Promise<void> {
      await Promise.all([writes.idle(), inspecting.close()]);
      db.close();
      lock.release();
    },
  };
  return translateErrors(store, unavailable);
}

/** The process that opened the file last for writing, for the error of a second one. */
function holderOf(path: string): string | null {
  try {
    const db = openForReading(path);
    try {
      return db.prepare<[], string>("SELECT value FROM meta WHERE key = 'holder'").pluck().get() ?? null;
    } finally {
      db.close();
    }
  } catch {
    return null;
  }
}
