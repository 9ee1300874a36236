import type { BreakerState, Failing, Slow } from "../model/breaker.ts";
import type { AttemptResult, OpenNote, QueuePlace, RouteNotes, StoredDelivery } from "../model/delivery.ts";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { leaseName, wholeRoute } from "../model/route-lease.ts";
import { type AttemptReport, type LaneHooks, longestWaitMs, sendOver, settleAttempt, storeRetryMs } from "./attempt.ts";
import { breakerVerdict } from "./breaker.ts";
import { type Decision, decide, pauseOf, type SettlingDecision, settledBy } from "./decide.ts";
import type { QueueOf } from "./ready-queue.ts";
import { type DestinationSession, openSession, type SessionParts } from "./session.ts";
import { breakerName, type LaneSettings } from "./settings.ts";

export type { FailedStage, LaneHooks } from "./attempt.ts";

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

/** During a longer hold, the queue keeps nothing loaded. */
const shortHoldMs = 1000;

/*
 * | mode | what happens | becomes |
 * |---|---|---|
 * | running | attempts start | suspended: the route left the settings; closing: the process or its lease ends |
 * | suspended | attempts in flight go on, and none starts | running: `reconfigure`; closing |
 * | closing | as suspended; after its time, attempts in flight are aborted and handed back | closed, once none is left |
 *
 * A running lane starts an attempt when all of this holds, and else waits for what it names:
 * the destination is not stopped (`wake`) · there is room (an attempt or a settlement ends) · this process holds the lease ·
 * no pause and no open breaker (time) · no probe in flight (its end) · a delivery is due (`offer`, time) · the rate allows it (time).
 */
type Mode = "running" | "suspended" | "closing";

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
  let mode: Mode = "running";
  let failing = notes.failing;
  let slow: Slow | null = null;
  /** Whether the store has it. Only a change is written, so a delivery costs nothing more. */
  let isFailingStored = failing !== null;
  let cancelTimer: (() => void) | null = null;
  let pumpScheduled = false;
  const idle = Promise.withResolvers<void>();
  let ended: Promise<void> | null = null;

  function move(to: Mode): void {
    if (mode === "closing") return;
    mode = to;
    if (to === "running") schedule();
    else queue.rest();
    if (to === "closing") closing.abort();
  }

  const room = (): number => {
    if (mode !== "running") return 0;
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

  const settlingParts = {
    settle: queue.settle,
    clock,
    hooks,
    closing: closing.signal,
    count(by: 1 | -1): void {
      settling += by;
      schedule();
    },
  };

  /** Starts that `rate` allows within a tenth of a second. */
  function startsAllowed(): number {
    const { rate } = session;
    return rate === undefined ? Number.POSITIVE_INFINITY : Math.max(1, Math.ceil(rate / 10));
  }

  /** Runs `pump` once per turn of the event loop, however often it is called. */
  function schedule(): void {
    if (pumpScheduled || mode === "closing") return;
    pumpScheduled = true;
    setImmediate(() => {
      pumpScheduled = false;
      // The store may be closed too.
      if (mode === "closing") return;
      try {
        queue.look(pump);
      } catch (error) {
        hooks.storeFailed(route, error);
        wakeIn(storeRetryMs);
      }
    });
  }

  function wakeIn(ms: number | null): void {
    cancelTimer?.();
    cancelTimer = ms === null ? null : clock.after(Math.min(Math.max(0, ms), longestWaitMs), schedule);
  }

  /** Starts nothing for `ms`. */
  function hold(ms: number): void {
    if (ms > shortHoldMs) queue.rest();
    wakeIn(ms);
  }

  function pump(): void {
    while (mode === "running" && queue.stopReason() === null && hasRoom() && maySend()) {
      const { breaker, bucket, time } = session;
      const steady = time.now();
      const heldUntil = Math.max(breaker.pausedUntil(), breaker.openUntil() ?? 0);
      if (heldUntil > steady) {
        hold(heldUntil - steady);
        return;
      }
      // The probe's outcome wakes the lane.
      if (breaker.waitsForProbe()) {
        queue.rest();
        return;
      }
      const now = clock.now();
      const delivery = queue.peek(now);
      if (delivery === null) {
        const dueAt = queue.nextDueAt();
        wakeIn(dueAt === null ? null : dueAt - now);
        return;
      }
      if (bucket !== null && bucket.nextAt() > steady) {
        hold(bucket.nextAt() - steady);
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
    if (mode === "closing" && inFlight + settling === 0) idle.resolve();
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
      const { breaker, time } = on;
      const wasPaused = breaker.pausedUntil() > time.now();
      breaker.pause(time.now() + until - clock.now());
      if (!wasPaused && on === session) hooks.paused(route, until);
    }
    if (decision.kind === "stop") hooks.stopped(route, decision.reason);
  }

  /** What a settlement stores of the breaker: only a change, and only one of the present settings. */
  function changeOfBreaker(on: DestinationSession): { readonly opened?: OpenNote | null } {
    const opened = on.breaker.opened();
    const until = opened === null ? undefined : on.time.toUnix(opened.until);
    if (on !== session || until === stored.opened?.until) return {};
    return { opened: opened === null || until === undefined ? null : { breaker: breakerName(on.settings), until, pause: opened.pause } };
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

  /** Writes what came of an attempt, and what changed with it for the whole route. */
  function settle(
    on: DestinationSession,
    { delivery, outgoing, outcome, decision }: AttemptReport & { readonly decision: SettlingDecision },
    startedAt: number,
    now: number,
  ): Promise<void> {
    const { event, eventId, receivedAt, replays } = delivery;
    const until = pauseOf(decision);
    const pause = until === null ? {} : { pause: { breaker: breakerName(on.settings), until } };
    const standing = failing === null && !isFailingStored ? {} : { failing };
    isFailingStored = failing !== null;
    const breaker = changeOfBreaker(on);
    stored = { ...stored, ...pause, ...breaker };
    return settleAttempt(settlingParts, delivery, {
      route,
      event,
      eventId,
      attempt: { number: outgoing.attempt, at: startedAt, ...outcome },
      settled: settledBy(decision, now),
      at: now,
      ...(replays === 0 ? { receivedAt } : {}),
      ...(decision.kind === "stop" ? { stop: decision.reason } : {}),
      ...pause,
      ...breaker,
      ...standing,
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
      session = openSession(settings, parts, stored);
      failing = null;
      slow = null;
      destinations.add(session.destination);
      void destination.retire().then(() => destinations.delete(destination));
      move("running");
    },
    /** Starts nothing more until `reconfigure`: the route is not in the settings. */
    suspend: (): void => move("suspended"),
    /** Reads the store again, after it was changed from outside (a resumed destination). */
    wake(): void {
      queue.lookAgain();
      const { breaker } = session;
      // Otherwise there is nothing that an operator can have ended. Another process reports each burst of deliveries so.
      const isHeldUp = breaker.pausedUntil() > session.time.now() || breaker.state() !== "closed";
      const next = isHeldUp ? parts.notesOf?.(route) : undefined;
      if (next instanceof Promise)
        next.then(follow, (error: unknown) => {
          if (mode !== "closing") hooks.storeFailed(route, error);
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
      const { breaker, time } = session;
      const [pausedUntil, openUntil] = [breaker.pausedUntil(), breaker.openUntil()];
      return {
        inFlight,
        breaker: breaker.state(),
        stopped: queue.stopReason(),
        pausedUntil: pausedUntil > time.now() ? time.toUnix(pausedUntil) : null,
        openUntil: openUntil === null ? null : time.toUnix(openUntil),
        failing,
        slow,
      };
    },
    /** Starts nothing more. Attempts in flight may finish within `ms`, then they are handed back. May be called again. */
    async close(ms: number): Promise<void> {
      move("closing");
      cancelTimer?.();
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
