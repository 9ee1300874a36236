import type { AlarmName, StoredAlarm } from "../model/alarm.ts";
import type { BudgetRequest } from "../model/budget.ts";
import type { DueRange, QueueKey, Settlement, Settling } from "../model/delivery.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { GaugeSample } from "../model/history.ts";
import type { Covering, HydrationEnd, ReadMessage, TrackedQuery } from "../model/hydration.ts";
import type { EventId } from "../model/ids.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { LastPass, PollClaim, PollQuery, SettledPoll } from "../model/poll.ts";
import type { SendClaim, SendEnd, SendKey } from "../model/send.ts";
import type { MessageRegistration } from "../track/registration.ts";
import type { Commands } from "./commands.ts";
import type { Database } from "./database.ts";
import type {
  AccountObservation,
  BackfillFilter,
  ObservationsRead,
  QuarantineFilter,
  ReleasedEvent,
  ReplayCursor,
  ReplayFilter,
  ReplayFound,
} from "./port.ts";
import { createReading } from "./read/reading.ts";
import { type Rules, sumRegistered } from "./rules.ts";
import type { CallCount, RecentCall } from "./service-port.ts";
import type { Work } from "./sql/ops.ts";
import type { SourceNote } from "./views.ts";
import { due, loadDeliveries } from "./work/attempts.ts";
import { findBackfill } from "./work/backfill.ts";
import { each } from "./work/batches.ts";
import { stepBudget } from "./work/budgets.ts";
import { createAcknowledgements } from "./work/counts.ts";
import {
  beginPass,
  callsSince,
  covered,
  endPass,
  noteReads,
  targets,
  trackedMessages,
  waitingAccounts,
  waitingSince,
} from "./work/hydration-passes.ts";
import { createLeaseStore } from "./work/leases.ts";
import { claimPolls, countPolls, settlePolls } from "./work/polls.ts";
import { findQuarantined, quarantined } from "./work/quarantine.ts";
import { findReplay, type ReplayStep, startOfReplay } from "./work/replay.ts";
import { createRetention } from "./work/retention.ts";
import { notesOf } from "./work/route-notes.ts";
import {
  addServiceCalls,
  alarms,
  claimOnce,
  findCursor,
  isClaimed,
  keepAlarm,
  lastPasses,
  listCursors,
  moveCursor,
  noteCall,
  noteHandshake,
  noteObservations,
  notePass,
  noteSource,
  observationsAfter,
  probe,
  recentCalls,
  serviceCalls,
} from "./work/state-rows.ts";
import { messageState } from "./work/subject-rows.ts";

export interface StoreParts {
  readonly commands: Commands;
  readonly rules: Rules;
  /** Of an embedded database: returns free pages to the disk, as many at a time. False: none left. */
  readonly giveBack?: (pages: number) => boolean;
}

/** Exchanges that one transaction ends. */
const mostExchanges = 1_000;

/** The port over the commands and reads of both databases. */
export function createStore(database: Database, { commands, rules, giveBack }: StoreParts) {
  const { run, read } = database;
  const { isAlone } = commands;
  const others = each((make: () => Work<unknown>) => make());
  /** A command that needs nothing but its turn. `make` begins it anew when its transaction is repeated. */
  const write = <T>(make: () => Work<T>): Promise<T> => run(others, make) as Promise<T>;
  const acknowledgements = createAcknowledgements((acknowledged) => run(commands.acknowledged, acknowledged));

  return {
    accept: (event: ReceivedEvent, proxyRoute: string | null = null) => run(commands.accept, { event, proxyRoute }),
    nameRequest: (request: string, id: EventId, now: number, forMs: number) => run(commands.nameRequest, { request, id, now, forMs }),
    quarantine: (body: QuarantinedBody) => run(commands.quarantine, body),
    release: (event: ReleasedEvent) => run(commands.release, event),
    register: async (registrations: readonly MessageRegistration[], at: number) =>
      sumRegistered(await run(commands.register, { registrations, at })),
    registerEach: async (registrations: readonly MessageRegistration[], at: number) =>
      (await Promise.all(registrations.map((one) => run(commands.register, { registrations: [one], at })))).flat(),
    releaseParked: (now: number, limit: number) => write(() => commands.releaseParked(now, limit)),
    expireParked: (now: number, limit: number) => write(() => commands.expireParked(now, limit)),
    resume: (route: string) => run(commands.resume, route),
    endPause: (route: string, now: number) => run(commands.endPause, { route, now }),
    retry: (event: number, route: string, at: number) => run(commands.retry, { event, route, at }),
    replay: (found: ReplayFound["found"], states: ReplayFilter["states"], at: number) => run(commands.replay, { found, states, at }),
    backfill: (events: readonly number[], filter: BackfillFilter, at: number) => run(commands.backfill, { events, filter, at }),
    findReplay: (filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number) =>
      then(read(findReplay(filter, placeOf(cursor), now, limit)), foundOf),
    findBackfill: (filter: BackfillFilter, cursor: ReplayCursor, limit: number) =>
      then(read(findBackfill(filter, placeOf(cursor), limit, rules)), foundOf),
    findQuarantined: (filter: QuarantineFilter, { since, event, lane }: ReplayCursor, limit: number) =>
      then(read(findQuarantined(filter, { since, receivedAt: lane, seq: event }, limit)), ({ found, place }) => ({
        found,
        cursor: place === null ? null : { since: place.since, event: place.seq, lane: place.receivedAt, route: "" },
      })),
    quarantined: (seq: number) => read(quarantined(seq)),
    // Queue.
    due: (range: DueRange) => read(due(range)),
    load: (route: string, keys: readonly QueueKey[]) => read(loadDeliveries(route, keys)),
    settle: (settling: Settling) => run(commands.settle, settling),
    notesOf: (routes: readonly string[]) => read(notesOf(routes)),
    claimPolls: (claim: PollClaim) => write(() => claimPolls(claim)),
    settlePolls: (settled: readonly SettledPoll[]) => write(() => settlePolls(settled)),
    countPolls: (query: PollQuery) => read(countPolls(query)),
    serviceCalls: (account: string, from: number) => read(serviceCalls(account, from)),
    addServiceCalls: (counts: readonly CallCount[]) => write(() => addServiceCalls(counts)),
    // Processes that share a database share the caps, too.
    recentCalls: (account: string, from: number) => (isAlone ? (read(recentCalls(account, from)) as readonly RecentCall[]) : []),
    noteCall: async (account: string, call: RecentCall) => (isAlone ? write(() => noteCall(account, call)) : undefined),
    waitingAccounts: () => read(waitingAccounts()),
    waitingSince: (account: string) => read(waitingSince(account)),
    beginPass: (account: string, now: number) => write(() => beginPass(account, now)),
    covered: (pass: Covering) => read(covered(pass)),
    targets: (pass: Covering, limit: number) => read(targets(pass, limit)),
    settleTarget: (pass: Covering, target: string, wamid: string | null, now: number) =>
      write(() => commands.settleTarget(pass, target, wamid, now)),
    trackedMessages: (account: string, query: TrackedQuery) => read(trackedMessages(account, query)),
    noteReads: (pass: Covering, polled: number, messages: readonly ReadMessage[]) => write(() => noteReads(pass, polled, messages)),
    callsSince: (account: string, since: number) => read(callsSince(account, since)),
    settleCovered: (pass: Covering, end: HydrationEnd, now: number, limit: number) =>
      write(() => commands.settleCovered(pass, end, now, limit)),
    endPass: (pass: Covering, now: number) => write(() => endPass(pass, now)),
    leases: createLeaseStore(<T>(make: () => Work<T>) => run(commands.lease, make) as Promise<T>),

    findSend: (key: SendKey) => read(commands.findSend(key)),
    beginSend: (key: SendKey, claim: SendClaim) => run(commands.beginSend, { key, claim }),
    settleSend: (key: SendKey, ended: SendEnd) => run(commands.settleSend, { key, ended }),
    forgetSends: (before: number, limit: number) => write(() => commands.forgetSends(before, limit)),
    settleExchange: (settlement: Settlement) => run(commands.settleExchange, settlement),
    async endLeftExchanges(at: number, reason: string): Promise<number> {
      for (let sum = 0; ; ) {
        const ended = await write(() => commands.endLeftExchanges(at, reason, mostExchanges));
        sum += ended;
        if (ended < mostExchanges) return sum;
      }
    },
    messageState: (account: string, wamid: string) => read(messageState(account, wamid)),
    findCursor: (name: string) => read(findCursor(name)),
    listCursors: () => read(listCursors()),
    moveCursor: (name: string, seq: number, at: number) => write(() => moveCursor(name, seq, at)),
    claimOnce: (key: string, until: number) => write(() => claimOnce(key, until)),
    isClaimed: (key: string) => read(isClaimed(key)),
    alarms: () => read(alarms()),
    keepAlarm: (name: AlarmName, alarm: StoredAlarm | null) => write(() => keepAlarm(name, alarm)),
    notePass: (pass: LastPass) => write(() => notePass(pass)),
    lastPasses: () => read(lastPasses()),
    noteHandshake: (fingerprint: string, at: number) => write(() => noteHandshake(fingerprint, at)),
    noteSource: (note: SourceNote) => write(() => noteSource(note)),
    // A process that is alone keeps its observations in memory.
    noteObservations: async (observations: readonly AccountObservation[]) =>
      isAlone ? undefined : write(() => noteObservations(observations)),
    observations: (place: string | null, from: number): MaybePromise<ObservationsRead> =>
      isAlone ? { observations: [], place: null } : read(observationsAfter(place, from)),
    holdLease: (name: string, forMs: number): MaybePromise<boolean> => isAlone || write(() => commands.holdLease(name, forMs)),
    /** Gives a process its part of an account's caps. `place`: the account at a base URL. */
    stepBudget: (place: string, request: BudgetRequest) => write(() => stepBudget(place, request)),
    probe: (at: number) => write(() => probe(at)),
    /** Call it before the database is closed: others need not wait for the leases of this process, or for the end of its calls. */
    leave: () => write(commands.leave),

    purge: createRetention(write, giveBack),
    noteAcknowledged: acknowledgements.note,
    sampleGauges: (values: GaugeSample, at: number) => run(commands.sampleGauges, { values, at }),
    /** Writes what is gathered in memory. Call it before the database is closed. */
    flush: acknowledgements.flush,

    read: createReading(database),
  };
}

/** What follows from a read: at once on SQLite. */
function then<A, B>(answer: MaybePromise<A>, next: (answer: A) => B): MaybePromise<B> {
  return answer instanceof Promise ? answer.then(next) : next(answer);
}

/** A walk begins before all rows: with the event 0. */
function placeOf(cursor: ReplayCursor): ReplayCursor {
  return cursor.event === 0 ? startOfReplay(cursor.since) : cursor;
}

const foundOf = ({ found, place }: ReplayStep): ReplayFound => ({ found, cursor: place });
