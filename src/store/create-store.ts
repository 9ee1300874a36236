import { randomUUID } from "node:crypto";
import type { SettledOutcome, Settlement, Settling } from "../model/delivery.ts";
import type { QuarantinedBody, ReceivedEvent } from "../model/event.ts";
import type { GaugeSample } from "../model/history.ts";
import type { Covering, HydrationEnd } from "../model/hydration.ts";
import type { EventId } from "../model/ids.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import type { SendClaim, SendEnd, SendKey, StoredSend } from "../model/send.ts";
import type { MessageRegistration } from "../track/registration.ts";
import type {
  AcceptOutcome,
  BackfillFilter,
  DueDelivery,
  Inspecting,
  Registered,
  ReleasedEvent,
  ReplayCursor,
  Replayed,
  ReplayFilter,
  ReplayFound,
  Retried,
  Rules,
} from "./port.ts";
import { createReading, type StoreReading } from "./read/reading.ts";
import { bound, type Work, type Writes } from "./sql/ops.ts";
import { type Arriving, accept } from "./work/accept.ts";
import { due, loadDeliveries, nextDue, settle } from "./work/attempts.ts";
import { type Backfilling, backfill, findBackfill } from "./work/backfill.ts";
import { stepBudget } from "./work/budgets.ts";
import {
  type Acknowledged,
  type Counts,
  countAcknowledged,
  createAcknowledgements,
  createCounting,
  sampleGauges,
} from "./work/counts.ts";
import { endLeftExchanges, settleExchanges } from "./work/exchanges.ts";
import {
  beginPass,
  callsSince,
  covered,
  endPass,
  noteReads,
  settleCovered,
  trackedMessages,
  waitingAccounts,
  waitingSince,
} from "./work/hydration-passes.ts";
import {
  createLeaseStore,
  type Held,
  holdLease,
  leaveProcess,
  type Process,
} from "./work/leases.ts";
import { expireParked, releaseParked } from "./work/parking.ts";
import { createPlanNumbers, type PlannedBatch } from "./work/plans.ts";
import { claimPolls, countPolls, settlePolls } from "./work/polls.ts";
import {
  findQuarantined,
  type Quarantined,
  quarantined,
  storeQuarantined,
} from "./work/quarantine.ts";
import { type Registering, register, sumRegistered } from "./work/register.ts";
import { release } from "./work/release.ts";
import { findReplay, type ReplayingFound, type Retrying, replay, retry } from "./work/replay.ts";
import { createRetention } from "./work/retention.ts";
import {
  type Beginning,
  beginSends,
  type Ending,
  findSend,
  forgetSends,
  settleSends,
} from "./work/sends.ts";
import {
  addServiceCalls,
  type CountedCalls,
  endPause,
  type Naming,
  nameRequests,
  noteCall,
  type RecentCall,
  recentCalls,
  resume,
  stateReads,
  stateWrites,
} from "./work/state-rows.ts";
import { messageState } from "./work/subject-rows.ts";

interface DueListener {
  offer(due: readonly DueDelivery[]): void;
  wake(route: string): void;
}

export interface Database {
  /**
   * Runs a command in one of the next transactions, with others of its kind. Resolves with its
   * outcome once that is durable; rejects with `StoreUnavailable` while the database cannot store.
   */
  run<In, Out>(kind: Batches<In, Out>, item: In): Promise<Out>;
  /**
   * Reads what is committed. SQLite answers at once, in one transaction; on PostgreSQL each
   * statement reads for itself.
   */
  read<T>(work: Work<T>): MaybePromise<T>;
}

export interface Batches<In, Out> {
  /** Each gets a transaction of its own on PostgreSQL. */
  readonly isEach?: boolean;
  /** `outcomes`: one for each command. `stored` is called after the commit. */
  readonly work: (
    batch: readonly In[],
  ) => Work<{ readonly outcomes: readonly Out[]; readonly stored?: () => void }>;
}

export function each<In, Out>(one: (item: In) => Work<Out>): Batches<In, Out> {
  return {
    isEach: true,
    *work(batch) {
      const outcomes: Out[] = [];
      for (const item of batch) outcomes.push(yield* one(item));
      return { outcomes };
    },
  };
}

const uncounted = <In, Out>(
  all: (batch: readonly In[]) => Work<readonly Out[]>,
): Batches<In, Out> => ({
  *work(batch) {
    return { outcomes: yield* all(batch) };
  },
});

interface CommandParts {
  readonly rules: Rules;
  readonly writer: string;
  readonly held: () => Held;
}

type Commands = ReturnType<typeof createCommands>;

export function createCommands({ rules, writer, held }: CommandParts) {
  const plans = createPlanNumbers();
  const begin = createCounting(writer).begin;
  const planning = { rules, plans };
  const parking = { ...planning, counts: begin };
  const process: Process = { id: randomUUID(), isAlone: writer === "" };

  const counted = <In, Out>(
    all: (batch: readonly In[], counts: Counts) => Work<PlannedBatch<Out>>,
  ): Batches<In, Out> => ({
    *work(batch) {
      const counts = begin();
      const { outcomes, plans: stored } = yield* all(batch, counts);
      yield* counts.write();
      return { outcomes, stored: () => plans.noteStored(stored) };
    },
  });

  return {
    accept: counted<Arriving, AcceptOutcome>((batch, counts) => accept(batch, planning, counts)),
    settle: uncounted<Settling, SettledOutcome>((batch) => settle(batch, begin, held())),
    quarantine: counted<QuarantinedBody, Quarantined>(function* (batch, counts) {
      return { outcomes: yield* storeQuarantined(batch, counts), plans: [] };
    }),
    release: counted<ReleasedEvent, AcceptOutcome | null>((batch, counts) =>
      release(batch, planning, counts),
    ),
    retry: uncounted<Retrying, Retried | null>(retry),
    replay: uncounted<ReplayingFound, Replayed>(replay),
    backfill: counted<Backfilling, Replayed>((batch, counts) => backfill(batch, planning, counts)),
    /** A heartbeat that waited behind other commands would end the leases. */
    lease: each((make: () => Work<unknown>) => make()),
    nameRequest: uncounted<Naming, EventId>(nameRequests),
    resume: each(resume),
    endPause: each(endPause),
    serviceCalls: uncounted<CountedCalls, null>(addServiceCalls),
    register: uncounted<Registering, readonly Registered[]>((batch) => register(batch, parking)),
    acknowledged: counted<Acknowledged, void>(function* (batch, counts) {
      return {
        outcomes: batch.map((acknowledged) => countAcknowledged(counts, acknowledged)),
        plans: [],
      };
    }),
    settleExchange: uncounted<Settlement, SettledOutcome>((batch) => settleExchanges(batch, begin)),
    endLeftExchanges: (at: number, reason: string, limit: number) =>
      endLeftExchanges(at, reason, limit, begin(), process),
    beginSend: uncounted<Beginning, StoredSend | null>((batch) => beginSends(batch, process)),
    settleSend: uncounted<Ending, readonly DueDelivery[]>((batch) =>
      settleSends(batch, process, parking),
    ),
    holdLease: (name: string, forMs: number) => holdLease(name, forMs, process),
    isAlone: process.isAlone,
    findSend: (key: SendKey) => findSend(key, process),
    writes: {
      releaseParked: (now: number, limit: number) => releaseParked(now, limit, parking),
      expireParked: (now: number, limit: number) => expireParked(now, limit, parking),
      forgetSends: (before: number, limit: number) => forgetSends(before, limit, process),
      sampleGauges: (values: GaugeSample, at: number) => sampleGauges(values, at, writer),
      settleCovered: (pass: Covering, end: HydrationEnd, now: number, limit: number) =>
        settleCovered(pass, end, now, limit, parking),
      /** Call it before the database is closed. */
      leave: () => leaveProcess(process),
    },
  };
}

interface StoreParts {
  readonly commands: Commands;
  readonly rules: Rules;
  /**
   * Returns free pages of an embedded database to the disk, as many at a time. False: none left.
   */
  readonly giveBack?: (pages: number) => boolean;
}

/**
 * Writes are atomic, and durable once their promise resolves. While the store cannot write, they
 * reject with `StoreUnavailable`. A delivery is named by its route and the seq of its event.
 */
export interface Store extends ReturnType<typeof createStore> {
  readonly browse: StoreReading;
  readonly inspecting: Inspecting;
  readonly isShared: boolean;
  announce(due: readonly DueDelivery[]): void;
  /** Deliveries and resumed routes of all processes. Returns the unsubscribe function. */
  onDue(listener: DueListener): () => void;
  /** After any process stored events, once per batch. Returns the unsubscribe function. */
  onStored(wake: () => void): () => void;
  /** False when it knows without writing that it cannot write. */
  isInPlace(): MaybePromise<boolean>;
  close(): Promise<void>;
}

/** Those of this process that wait for deliveries and for events. */
export function createListeners() {
  const ofDue = new Set<DueListener>();
  const ofStored = new Set<() => void>();
  return {
    offer(due: readonly DueDelivery[]): void {
      for (const listener of ofDue) listener.offer(due);
    },
    wake(route: string): void {
      for (const listener of ofDue) listener.wake(route);
    },
    wakeStored(): void {
      for (const wake of [...ofStored]) wake();
    },
    onDue(listener: DueListener): () => void {
      ofDue.add(listener);
      return () => void ofDue.delete(listener);
    },
    onStored(wake: () => void): () => void {
      ofStored.add(wake);
      return () => void ofStored.delete(wake);
    },
    clear(): void {
      ofDue.clear();
      ofStored.clear();
    },
  };
}

const mostExchanges = 1_000;

export function createStore(database: Database, { commands, rules, giveBack }: StoreParts) {
  const { run } = database;
  const { isAlone } = commands;
  const others = each((make: () => Work<unknown>) => make());
  const write = <T>(make: () => Work<T>): Promise<T> => run(others, make) as Promise<T>;
  const acknowledgements = createAcknowledgements((acknowledged) =>
    run(commands.acknowledged, acknowledged),
  );

  const reads = {
    ...stateReads,
    ...{
      findReplay,
      findQuarantined,
      quarantined,
      due,
      nextDue,
      load: loadDeliveries,
      countPolls,
      messageState,
      findSend: commands.findSend,
    },
    findBackfill: (filter: BackfillFilter, cursor: ReplayCursor, limit: number) =>
      findBackfill(filter, cursor, limit, rules),
    ...{ waitingAccounts, waitingSince, covered, trackedMessages, callsSince },
  };
  const writes = {
    ...stateWrites,
    ...commands.writes,
    claimPolls,
    settlePolls,
    beginPass,
    noteReads,
    endPass,
    stepBudget,
  };

  return {
    ...bound(reads, (make) => database.read(make())),
    ...(bound(writes, write) as Writes<typeof writes>),
    /**
     * `proxyRoute`: the exchange that a `mode: proxy` source makes at once, which no dispatcher
     * picks up.
     */
    accept: (event: ReceivedEvent, proxyRoute: string | null = null) =>
      run(commands.accept, { event, proxyRoute }),
    /** The event id of a signed request: `id`, or the one it got within the last `forMs`. */
    nameRequest: (request: string, id: EventId, now: number, forMs: number) =>
      run(commands.nameRequest, { request, id, now, forMs }),
    quarantine: (body: QuarantinedBody) => run(commands.quarantine, body),
    /**
     * Accepts an event that was read from the body `event.releaseOf`. Null: the body is no longer
     * in quarantine.
     */
    release: (event: ReleasedEvent) => run(commands.release, event),
    /** All or none: rejects with a `conflict` when one contradicts what is stored. */
    register: async (registrations: readonly MessageRegistration[], at: number) =>
      sumRegistered(await run(commands.register, { registrations, at })),
    /** Each on its own, in order: a conflict does not affect the others. */
    registerEach: async (registrations: readonly MessageRegistration[], at: number) =>
      (
        await Promise.all(
          registrations.map((one) => run(commands.register, { registrations: [one], at })),
        )
      ).flat(),
    resume: (route: string) => run(commands.resume, route),
    endPause: (route: string, now: number) => run(commands.endPause, { route, now }),
    retry: (event: number, route: string, at: number) => run(commands.retry, { event, route, at }),
    replay: (found: ReplayFound["found"], states: ReplayFilter["states"], at: number) =>
      run(commands.replay, { found, states, at }),
    backfill: (events: readonly number[], filter: BackfillFilter, at: number) =>
      run(commands.backfill, { events, filter, at }),
    settle: (settling: Settling) => run(commands.settle, settling),
    addServiceCalls: (account: string, day: number, calls: CountedCalls["calls"]) =>
      run(commands.serviceCalls, { account, day, calls }),
    // Processes that share a database divide the caps, and parts of the caps outlive a process.
    recentCalls: (account: string) =>
      isAlone ? (database.read(recentCalls(account)) as readonly RecentCall[]) : [],
    noteCall: async (account: string, call: RecentCall) =>
      isAlone ? write(() => noteCall(account, call)) : undefined,
    leases: createLeaseStore(<T>(make: () => Work<T>) => run(commands.lease, make) as Promise<T>),
    beginSend: (key: SendKey, claim: SendClaim) => run(commands.beginSend, { key, claim }),
    settleSend: (key: SendKey, ended: SendEnd) => run(commands.settleSend, { key, ended }),
    settleExchange: (settlement: Settlement) => run(commands.settleExchange, settlement),
    async endLeftExchanges(at: number, reason: string): Promise<number> {
      for (let sum = 0; ; ) {
        const ended = await write(() => commands.endLeftExchanges(at, reason, mostExchanges));
        sum += ended;
        if (ended < mostExchanges) return sum;
      }
    },
    /** A process that is alone holds all leader leases. */
    holdLease: (name: string, forMs: number): MaybePromise<boolean> =>
      isAlone || write(() => commands.holdLease(name, forMs)),
    purge: createRetention(write, giveBack),
    /**
     * A webhook was answered with 2xx `tookMs` after its request began. Written within a second.
     */
    noteAcknowledged: acknowledgements.note,
    flush: acknowledgements.flush,
    read: createReading(database),
  };
}
