import type { Clock } from "../model/clock.ts";
import type { QueuePlace, RouteNotes, StoredDelivery } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { leaseName, wholeRoute } from "../model/route-lease.ts";
import { type Attempts, createAttempts, longestWaitMs } from "./attempt.ts";
import type { LaneHooks } from "./decide.ts";
import { createHealth, type Health, type HealthState, type SessionParts } from "./health.ts";
import { createPolls, type PollStore } from "./polls.ts";
import {
  createReadyQueue,
  type DeliveryStore,
  type QueueOf,
  type ReadyQueue,
  storeRetryMs,
} from "./ready-queue.ts";
import type { LaneSettings } from "./settings.ts";

export interface LaneParts extends SessionParts {
  readonly queueOf: QueueOf;
  readonly random: () => number;
  readonly hooks: LaneHooks;
  /** Stored by an earlier owner of the route. */
  readonly notesOf?: (route: string) => MaybePromise<RouteNotes>;
  /** Whether this process holds the lease now. Default: always. */
  readonly maySend?: (lease: string) => boolean;
}

export interface LaneState extends HealthState {
  readonly inFlight: number;
}

export const noNotes: RouteNotes = { stop: null, pause: null, opened: null, failing: null };

export type Lane = ReturnType<typeof createLane>;

/*
 * | mode | what happens | becomes |
 * |---|---|---|
 * | running | attempts start | suspended: the route left the settings; closing: the process or its lease ends |
 * | suspended | attempts in flight go on, and none starts | running: `reconfigure`; closing, without leases once it is idle |
 * | closing | as suspended; after its time, attempts in flight are aborted and handed back | closed, once none is left |
 *
 * A running lane starts an attempt when all of this holds, and else waits for what it names:
 * the destination is not stopped (`wake`) · there is room (an attempt or a settlement ends) · this
 * process holds the lease · no pause and no open breaker (time) · no probe in flight (its end) · a
 * delivery is due (`offer`, time) · the rate allows it (time).
 */
type Mode = "running" | "suspended" | "closing";

/**
 * `concurrency` bounds attempts in flight, and four times that settlements, so that connections do
 * not idle during a commit.
 */
export function createLane(initial: LaneSettings, parts: LaneParts, notes: RouteNotes = noNotes) {
  const { clock, hooks } = parts;
  const { name: route, shard = wholeRoute } = initial;
  const lease = leaseName(route, shard);
  const maySend = (): boolean => parts.maySend?.(lease) ?? true;
  const closing = new AbortController();
  const health = createHealth(initial, parts, notes);
  const queue = parts.queueOf(
    route,
    {
      wake: schedule,
      polled: () => lookAgain(health.stopped() !== null),
      failed: (error) => hooks.storeFailed(route, error),
      room: () => (mode === "running" ? roomOf(health, attempts.inFlight()) : 0),
      mostAhead: () =>
        Math.min(2 * health.session().settings.to.concurrency, startsAllowed(health)),
      isProbing: () => health.session().breaker.isCautious(),
    },
    shard,
  );
  const attempts = createAttempts({
    ...parts,
    route,
    health,
    queue,
    maySend,
    closing: closing.signal,
    changed: schedule,
  });
  const destinations = new Set([health.session().destination]);
  let mode: Mode = "running";
  let whenIdle = (): void => {};
  let cancelTimer = (): void => {};
  let ended: Promise<void> | null = null;

  function move(to: Mode): void {
    if (mode === "closing") return;
    mode = to;
    if (to === "running") schedule();
    else queue.rest();
    if (to === "closing") closing.abort();
  }

  function schedule(): void {
    runInTurn(look);
  }

  function look(): number {
    if (mode === "closing") return 0;
    if (mode === "suspended") {
      if (attempts.isIdle()) whenIdle();
      return 0;
    }
    const before = attempts.inFlight();
    const begun = (): number => attempts.inFlight() - before;
    const mayStart = (): boolean => mode === "running" && begun() < mostPerLook && maySend();
    try {
      queue.look(() => wakeIn(startDue({ health, queue, attempts, now: clock.now, mayStart })));
    } catch (error) {
      hooks.storeFailed(route, error);
      wakeIn(storeRetryMs);
    }
    if (begun() === mostPerLook) schedule();
    return begun();
  }

  function wakeIn(ms: number | null): void {
    cancelTimer();
    cancelTimer =
      ms === null ? () => {} : clock.after(Math.min(Math.max(0, ms), longestWaitMs), schedule);
  }

  /** Reads what an operator may have ended, perhaps through another process. */
  function lookAgain(isHeldUp: boolean): void {
    const follow = health.follow();
    const apply = (next: RouteNotes): void => {
      follow(next);
      schedule();
    };
    const notes = isHeldUp ? parts.notesOf?.(route) : undefined;
    if (notes instanceof Promise)
      notes.then(apply, (error: unknown) => {
        if (mode !== "closing") hooks.storeFailed(route, error);
      });
    else if (notes !== undefined) apply(notes);
    schedule();
  }

  async function end(): Promise<void> {
    await attempts.ended();
    queue.close();
    await health.session().destination.close();
  }

  schedule();

  return {
    offer(place: QueuePlace): void {
      queue.offer(place);
      schedule();
    },
    /** Attempts in flight go on under the old settings. */
    reconfigure(settings: LaneSettings): void {
      const { destination } = health.session();
      health.reconfigure(settings);
      destinations.add(health.session().destination);
      void destination.retire().then(() => destinations.delete(destination));
      move("running");
    },
    /** `idle`: no attempt is in flight any more, and the lane is still suspended. */
    suspend(idle: () => void): void {
      whenIdle = idle;
      move("suspended");
      schedule();
    },
    /** The store was changed from outside. */
    wake(): void {
      queue.lookAgain();
      lookAgain(health.stopped() !== null || health.isHeldUp());
    },
    /** True when a pause or an open breaker prevented an attempt. */
    tryNow(): boolean {
      const waited = health.tryNow();
      schedule();
      return waited;
    },
    state: (): LaneState => ({ ...health.state(), inFlight: attempts.inFlight() }),
    /**
     * Attempts in flight may finish within `ms`, then they are handed back. May be called again.
     */
    async close(ms: number): Promise<void> {
      move("closing");
      cancelTimer();
      const handBack = (): void => {
        for (const destination of destinations) void destination.close();
      };
      if (ms === 0) handBack();
      const cancel = clock.after(ms, handBack);
      ended ??= end();
      await ended;
      cancel();
    },
  };
}

/** Within a tenth of a second. */
function startsAllowed(health: Health): number {
  return Math.max(1, Math.ceil(health.session().rate / 10));
}

function roomOf(health: Health, inFlight: number): number {
  const { breaker, settings } = health.session();
  if (breaker.isCautious()) return 1;
  return Math.min(Math.max(0, settings.to.concurrency - inFlight), startsAllowed(health));
}

/** In a longer hold, the queue keeps nothing loaded. */
const shortHoldMs = 1000;

interface Starting {
  readonly health: Health;
  readonly queue: ReadyQueue;
  readonly attempts: Attempts;
  readonly now: () => number;
  readonly mayStart: () => boolean;
}

/** In ms; null: something else wakes the lane. */
function startDue({ health, queue, attempts, now, mayStart }: Starting): number | null {
  const hold = (ms: number): number => {
    if (ms > shortHoldMs) queue.rest();
    return ms;
  };
  while (mayStart() && health.stopped() === null && attempts.hasRoom()) {
    const { breaker, pace } = health.session();
    const steady = health.time.now();
    const heldUntil = Math.max(breaker.pausedUntil(), breaker.openUntil() ?? 0);
    if (heldUntil > steady) return hold(heldUntil - steady);
    // The probe's outcome wakes the lane.
    if (breaker.waitsForProbe()) {
      queue.rest();
      return null;
    }
    const at = now();
    const delivery: StoredDelivery | null = queue.peek(at);
    if (delivery === null) {
      const dueAt = queue.nextDueAt();
      // What is due already is being read, and the answer wakes the lane.
      return dueAt === null || dueAt <= at ? null : dueAt - at;
    }
    if (pace !== null && pace.readyAt() > steady) return hold(pace.readyAt() - steady);
    if (!breaker.mayStart()) return null;
    pace?.take(steady);
    queue.start();
    attempts.start(delivery);
  }
  return null;
}

interface LaneStore extends DeliveryStore, PollStore {
  notesOf(routes: readonly string[]): MaybePromise<readonly RouteNotes[]>;
}

/** The lanes of a process that delivers all routes. */
export function lanesOf(
  store: LaneStore,
  clock: Clock,
  isShared = false,
): Required<Pick<LaneParts, "queueOf" | "notesOf">> {
  const polls = isShared ? createPolls(store, clock) : null;
  return {
    queueOf: (route, lane, shard) => createReadyQueue(route, lane, { store, clock, polls, shard }),
    notesOf(route) {
      const notes = store.notesOf([route]);
      return notes instanceof Promise
        ? notes.then(([one]) => one ?? noNotes)
        : (notes[0] ?? noNotes);
    },
  };
}

/** Returns how many attempts it began, at most `mostPerLook`. */
type Look = () => number;

/**
 * Looks and attempts, a few milliseconds of work: the attempts of hundreds of routes would keep
 * requests waiting for a second. A busy turn also delays connections, of which Node accepts one per
 * turn.
 */
const mostPerTurn = 16;
/** A lane does not load more at once. */
const mostPerLook = 64;

const waiting = new Set<Look>();
let isScheduled = false;

/**
 * Once, in one of the next turns of the event loop, which all lanes share: first come, first
 * served.
 */
function runInTurn(look: Look): void {
  waiting.add(look);
  if (!isScheduled) setImmediate(runTurn);
  isScheduled = true;
}

function runTurn(): void {
  let left = mostPerTurn;
  // Those that come meanwhile have a later turn.
  for (const look of [...waiting].slice(0, mostPerTurn)) {
    if (left <= 0) break;
    waiting.delete(look);
    left -= 1 + look();
  }
  isScheduled = waiting.size > 0;
  if (isScheduled) setImmediate(runTurn);
}
