import type { BreakerState, Failing, Slow } from "../model/breaker.ts";
import type { AttemptResult, OpenNote, QueuePlace, RouteNotes, StoredDelivery } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { leaseName, wholeRoute } from "../model/route-lease.ts";
import { breakerVerdict } from "./breaker.ts";
import { type Decision, decide, pauseOf, type SettlingDecision, settledBy } from "./decide.ts";
import type { AttemptOutcome, OutgoingDelivery } from "./destinations/destination.ts";
import type { QueueOf } from "./ready-queue.ts";
import { type DestinationSession, faultText, openSession, type SessionParts, sendOver } from "./session.ts";
import { breakerName, type LaneSettings } from "./settings.ts";

interface AttemptReport {
  readonly delivery: StoredDelivery;
  readonly outgoing: OutgoingDelivery;
  readonly outcome: AttemptOutcome;
  readonly decision: Decision;
}

export interface LaneHooks {
  /** May add to a delivery before it is sent. Must not throw. */
  composed?(delivery: StoredDelivery, outgoing: OutgoingDelivery): OutgoingDelivery;
  attempted(report: AttemptReport): void;
  breakerMoved(route: string, state: BreakerState): void;
  stopped(route: string, reason: string): void;
  /** The destination asked for a pause until `until`, unix ms. */
  paused(route: string, until: number): void;
  storeFailed(route: string, error: unknown): void;
  /** The relay itself failed on this delivery. Others go on. */
  failed(delivery: StoredDelivery, stage: FailedStage, error: unknown): void;
}

/** Where the relay failed on a delivery. */
export type FailedStage = "compose" | "send" | "report" | "settle";

export interface LaneParts extends SessionParts {
  readonly queueOf: QueueOf;
  readonly random: () => number;
  readonly hooks: LaneHooks;
  /** What whoever delivered the route before has stored; absent: nothing. */
  readonly notesOf?: (route: string) => MaybePromise<RouteNotes>;
  /** Whether this process may send deliveries under the lease now. Default: always. */
  readonly maySend?: (lease: string) => boolean;
}

export interface LaneState {
  readonly inFlight: number;
  readonly breaker: BreakerState;
  /** Why the destination is stopped; null when it is not. */
  readonly stopped: string | null;
  /** Unix ms until which the destination asked for a pause; null without one. */
  readonly pausedUntil: number | null;
  /** Unix ms until which the breaker is open; null unless open. */
  readonly openUntil: number | null;
  /** Null: the last attempt delivered, or none is known. */
  readonly failing: Failing | null;
  /** Deliveries in a row that took more than `slowShare` of the timeout. Null: the last one did not. */
  readonly slow: Slow | null;
}

export const noNotes: RouteNotes = { stop: null, pause: null, opened: null, failing: null };

/** Slower attempts than this share of the destination's timeout are half way to failing. */
const slowShare = 0.5;

export type Lane = ReturnType<typeof createLane>;

/** Wait after a failed read or write of the store. */
const storeRetryMs = 500;

/** A settlement that fails this often while the store is available is the fault of this delivery. */
const settleTries = 3;

/** Timers ignore clock changes and sleep, so the next due time is checked at least this often. */
const longestWaitMs = 60_000;

/** During a longer hold, the queue keeps nothing loaded. */
const shortHoldMs = 1000;

/**
 * Sends the deliveries of one route, or of a shard of it. The backlog stays in the store; memory has the next few of it
 * (`ready-queue.ts`), so that a backlog of any length costs the same. `concurrency` bounds attempts in flight, and four
 * times that bounds settlements that are not durable yet, so that connections do not idle during a commit.
 */
export function createLane(initial: LaneSettings, parts: LaneParts, notes: RouteNotes = noNotes) {
  const { clock, random, hooks } = parts;
  const route = initial.name;
  const shard = initial.shard ?? wholeRoute;
  const lease = leaseName(route, shard);
  const maySend = (): boolean => parts.maySend?.(lease) ?? true;
  const closing = new AbortController();
  /** What is stored, as far as this lane knows. */
  let stored = notes;
  let session = openSession(initial, parts, stored);
  /** Of this session, and of earlier ones with attempts in flight. */
  const destinations = new Set([session.destination]);
  let settling = 0;
  let inFlight = 0;
  let suspended = false;
  let closed = false;
  let failing = notes.failing;
  let slow: Slow | null = null;
  /** Whether the store has it. Only a change is written, so a delivery costs nothing more. */
  let isFailingStored = failing !== null;
  let cancelTimer: (() => void) | null = null;
  let pumpScheduled = false;
  const idle = Promise.withResolvers<void>();
  let ended: Promise<void> | null = null;

  const room = (): number => {
    if (closed || suspended) return 0;
    // Half-open allows one probe, and open nothing.
    if (session.breaker.state() !== "closed") return 1;
    return Math.min(Math.max(0, session.settings.to.concurrency - inFlight), startsAllowed());
  };
  const queue = parts.queueOf(
    route,
    {
      wake: schedule,
      failed: (error) => hooks.storeFailed(route, error),
      room,
      mostAhead: () => Math.min(2 * session.settings.to.concurrency, startsAllowed()),
    },
    notes.stop,
    shard,
  );

  /** Starts that `rate` allows within a tenth of a second. */
  function startsAllowed(): number {
    const { rate } = session;
    return rate === undefined ? Number.POSITIVE_INFINITY : Math.max(1, Math.ceil(rate / 10));
  }

  /** Runs `pump` once per turn of the event loop, however often it is called. */
  function schedule(): void {
    if (pumpScheduled || closed) return;
    pumpScheduled = true;
    setImmediate(() => {
      pumpScheduled = false;
      // Closed meanwhile: the store may be closed too.
      if (closed) return;
      try {
        queue.look(pump);
      } catch (error) {
        hooks.storeFailed(route, error);
        wakeAt(clock.now() + storeRetryMs);
      }
    });
  }

  function wakeAt(at: number | null): void {
    cancelTimer?.();
    cancelTimer = at === null ? null : clock.after(Math.min(Math.max(0, at - clock.now()), longestWaitMs), schedule);
  }

  /** Starts nothing before `at`. */
  function hold(at: number, now: number): void {
    if (at - now > shortHoldMs) queue.rest();
    wakeAt(at);
  }

  function pump(): void {
    while (!closed && !suspended && queue.stopReason() === null && hasRoom() && maySend()) {
      const now = clock.now();
      const { breaker, bucket } = session;
      const heldUntil = Math.max(breaker.pausedUntil(), breaker.openUntil() ?? 0);
      if (heldUntil > now) {
        hold(heldUntil, now);
        return;
      }
      // The probe's outcome wakes the lane.
      if (breaker.waitsForProbe()) {
        queue.rest();
        return;
      }
      const delivery = queue.peek(now);
      if (delivery === null) {
        wakeAt(queue.nextDueAt());
        return;
      }
      if (bucket !== null && bucket.nextAt() > now) {
        hold(bucket.nextAt(), now);
        return;
      }
      if (!breaker.mayStart()) return;
      bucket?.take();
      queue.start();
      attempt(session, delivery).catch((error: unknown) => hooks.failed(delivery, "report", error));
    }
  }

  function hasRoom(): boolean {
    const { concurrency } = session.settings.to;
    return inFlight < concurrency && settling < 4 * concurrency;
  }

  async function attempt(on: DestinationSession, delivery: StoredDelivery): Promise<void> {
    inFlight += 1;
    const startedAt = clock.now();
    const { outgoing, outcome, unsendable } = await sendOver(on, delivery, hooks, maySend);
    inFlight -= 1;
    const now = clock.now();
    const decision: Decision =
      unsendable === null
        ? decide(outcome.result, delivery.spent + 1, on.settings.to.retry, now, random)
        : { kind: "dead", reason: unsendable };
    const report = { delivery, outgoing, outcome, decision };
    recordHealth(on, report);
    try {
      hooks.attempted(report);
    } catch (error) {
      hooks.failed(delivery, "report", error);
    }
    settling += 1;
    schedule();
    if (decision.kind !== "interrupted") await settle(on, { ...report, decision }, startedAt, now);
    else queue.putBack(delivery.event);
    settling -= 1;
    if (closed && inFlight + settling === 0) idle.resolve();
    schedule();
  }

  function recordHealth(on: DestinationSession, { decision, outcome }: AttemptReport): void {
    noticeBreaker(on);
    on.breaker.record(decision.kind === "interrupted" ? "neutral" : breakerVerdict(outcome.result));
    noticeBreaker(on);
    if (decision.kind === "delivered") {
      failing = null;
      const isSlow = outcome.tookMs > slowShare * on.settings.to.timeout;
      slow = isSlow ? { since: slow?.since ?? clock.now(), attempts: (slow?.attempts ?? 0) + 1 } : null;
    } else if (decision.kind !== "interrupted") {
      failing = { since: failing?.since ?? clock.now(), attempts: (failing?.attempts ?? 0) + 1, cause: causeOf(outcome.result) };
    }
    const until = pauseOf(decision);
    if (until !== null) {
      const wasPaused = on.breaker.pausedUntil() > clock.now();
      on.breaker.pause(until);
      if (!wasPaused && on === session) hooks.paused(route, until);
    }
    if (decision.kind === "stop") hooks.stopped(route, decision.reason);
  }

  /** What a settlement stores of the breaker: only a change, and only one of the present settings. */
  function changeOfBreaker(on: DestinationSession): { readonly opened?: OpenNote | null } {
    const opened = on.breaker.opened();
    const known = stored.opened;
    if (on !== session || (opened === null ? known === null : opened.until === known?.until)) return {};
    return { opened: opened === null ? null : { breaker: breakerName(on.settings), ...opened } };
  }

  /** An operator ended a stored pause, perhaps through another process. */
  function follow(next: RouteNotes): void {
    const isEnded = (stored.pause !== null || stored.opened !== null) && next.pause === null && next.opened === null;
    stored = next;
    if (isEnded) session.breaker.tryNow();
    schedule();
  }

  /** Reports a breaker that opened or closed. Half-open is not reported, because time alone causes it. */
  function noticeBreaker(of: DestinationSession): void {
    const state = of.breaker.state();
    if (state === of.seen) return;
    of.seen = state;
    if (state !== "half-open" && of === session) hooks.breakerMoved(route, state);
  }

  /**
   * Writes the outcome of an attempt. Retries while the store is unavailable. An outcome that an available store rejects
   * makes the delivery a dead letter, or keeps it in memory if that fails too: not sent again, and not blocking others.
   */
  async function settle(
    on: DestinationSession,
    { delivery, outgoing, outcome, decision }: AttemptReport & { readonly decision: SettlingDecision },
    startedAt: number,
    now: number,
  ): Promise<void> {
    const { event, eventId, receivedAt, replays } = delivery;
    const received = replays === 0 ? { receivedAt } : {};
    const settled = settledBy(decision, now);
    const attempt = { number: outgoing.attempt, at: startedAt, ...outcome };
    const stop = decision.kind === "stop" ? { stop: decision.reason } : {};
    const until = pauseOf(decision);
    const pause = until === null ? {} : { pause: { breaker: breakerName(on.settings), until } };
    const standing = failing === null && !isFailingStored ? {} : { failing };
    isFailingStored = failing !== null;
    const breaker = changeOfBreaker(on);
    stored = { ...stored, ...pause, ...breaker };
    let isCounted = true;
    try {
      for (let tries = 1; ; tries++) {
        try {
          return await queue.settle({
            route,
            event,
            eventId,
            attempt,
            settled,
            at: now,
            ...received,
            ...stop,
            ...pause,
            ...breaker,
            ...standing,
          });
        } catch (error) {
          if (isUnavailable(error)) tries = 0;
          if (tries < settleTries) hooks.storeFailed(route, error);
          else if (await bury(error)) return;
          // At shutdown it stays waiting in the store and is sent again (at least once).
          if (closed) return;
          if (tries >= settleTries && isCounted) {
            isCounted = false;
            settling -= 1;
            schedule();
          }
          await (isCounted ? new Promise<void>((resolve) => clock.after(storeRetryMs, resolve)) : longWait());
        }
      }
    } finally {
      if (!isCounted) settling += 1;
    }

    async function bury(fault: unknown): Promise<boolean> {
      hooks.failed(delivery, "settle", fault);
      const reason = `${settled.to === "delivered" ? "delivered, which" : "the outcome of its attempt"} could not be stored: ${faultText(fault)}`;
      try {
        await queue.settle({ route, event, eventId, attempt: { ...attempt, response: null }, settled: { to: "dead", reason }, at: now });
        return true;
      } catch {
        return false;
      }
    }
  }

  /** The wait between tries of a settlement that no longer counts. A shutdown ends it. */
  function longWait(): Promise<void> {
    return new Promise((resolve) => {
      const cancel = clock.after(longestWaitMs, resolve);
      closing.signal.addEventListener("abort", () => {
        cancel();
        resolve();
      });
    });
  }

  async function end(): Promise<void> {
    if (inFlight + settling > 0) await idle.promise;
    queue.close();
    await session.destination.close();
  }

  schedule();

  return {
    /** A delivery was planned or released. */
    offer(place: QueuePlace): void {
      queue.offer(place);
      schedule();
    },
    /** Applies new settings without losing attempts in flight; ends a suspension. */
    reconfigure(settings: LaneSettings): void {
      const { destination } = session;
      suspended = false;
      session = openSession(settings, parts, stored);
      failing = null;
      slow = null;
      destinations.add(session.destination);
      void destination.retire().then(() => destinations.delete(destination));
      schedule();
    },
    /** Starts nothing more until `reconfigure`: the route is not in the settings. */
    suspend(): void {
      suspended = true;
      queue.rest();
    },
    /** Reads the store again, after it was changed from outside (a resumed destination). */
    wake(): void {
      queue.lookAgain();
      const { breaker } = session;
      // Otherwise there is nothing that an operator can have ended. Another process reports each burst of deliveries so.
      const isHeldUp = breaker.pausedUntil() > clock.now() || breaker.state() !== "closed";
      const next = isHeldUp ? parts.notesOf?.(route) : undefined;
      if (next instanceof Promise)
        next.then(follow, (error: unknown) => {
          if (!closed) hooks.storeFailed(route, error);
        });
      else if (next !== undefined) follow(next);
      schedule();
    },
    /** An operator wants an attempt now. True when a pause or an open breaker prevented it. */
    tryNow(): boolean {
      const waited = session.breaker.tryNow();
      stored = { ...stored, pause: null, opened: null };
      schedule();
      return waited;
    },
    state(): LaneState {
      const pausedUntil = session.breaker.pausedUntil();
      return {
        inFlight,
        breaker: session.breaker.state(),
        stopped: queue.stopReason(),
        pausedUntil: pausedUntil > clock.now() ? pausedUntil : null,
        openUntil: session.breaker.openUntil(),
        failing,
        slow,
      };
    },
    /** Starts nothing more. Attempts in flight may finish within `ms`, then they are handed back. May be called again. */
    async close(ms: number): Promise<void> {
      closed = true;
      closing.abort();
      cancelTimer?.();
      queue.rest();
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

function causeOf(result: AttemptResult): string {
  if (result.kind === "failed") return result.error;
  return result.kind === "answered" ? String(result.status) : "";
}

/** Whether the store is unavailable for every delivery. */
function isUnavailable(error: unknown): boolean {
  return error instanceof Error && error.name === "StoreUnavailable";
}
