import { type Clock, createPace, createSteadyTime, type SteadyTime } from "../model/clock.ts";
import type {
  AttemptResult,
  BreakerState,
  Failing,
  OpenNote,
  RouteNotes,
  Settlement,
  Slow,
} from "../model/delivery.ts";
import { type AttemptReport, type Decision, type LaneHooks, pauseOf } from "./decide.ts";
import type { Destination } from "./destinations/destination.ts";
import {
  breakerName,
  type CommonSettings,
  type DestinationSettings,
  type LaneSettings,
  rateOf,
} from "./settings.ts";

export interface SessionParts {
  readonly clock: Clock;
  readonly connect: (to: DestinationSettings) => Destination;
  /** Another process may have used up the rate a moment ago. */
  readonly takesOver?: boolean;
}

export interface DestinationSession {
  readonly settings: LaneSettings;
  readonly destination: Destination;
  readonly breaker: Breaker;
  /** Attempts per second. */
  readonly rate: number;
  readonly pace: ReturnType<typeof createPace> | null;
  seen: BreakerState;
}

/**
 * A full second would allow twice the rate within a window of the downstream's; much less cannot
 * sustain a high rate.
 */
const savedSeconds = 0.1;

function openSession(
  settings: LaneSettings,
  parts: SessionParts,
  notes: RouteNotes,
  time: SteadyTime,
): DestinationSession {
  const { clock, connect, takesOver } = parts;
  const rate = rateOf(settings);
  const breaker = breakerFrom(notes, settings, clock.now(), time.now);
  const pace =
    rate === Number.POSITIVE_INFINITY
      ? null
      : createPace(1000 / rate, Math.max(1, rate * savedSeconds), time.now(), takesOver);
  return {
    settings,
    destination: connect(settings.to),
    breaker,
    rate,
    pace,
    seen: breaker.state(),
  };
}

/** `now` in unix ms. */
function breakerFrom(
  { pause, opened }: RouteNotes,
  settings: LaneSettings,
  now: number,
  time: () => number,
): Breaker {
  const name = breakerName(settings);
  // No longer than a whole pause: the clock was set back since.
  const left =
    opened?.breaker === name
      ? { until: time() + Math.min(opened.until - now, opened.pause), pause: opened.pause }
      : null;
  const breaker = createBreaker(settings.to.breaker, time, left);
  if (pause?.breaker === name)
    breaker.pause(time() + pausedUntil(pause.until, settings, now) - now);
  return breaker;
}

/** When a stored pause ends. A longer one than the settings allow: the clock was set back. */
export function pausedUntil(until: number, { to }: LaneSettings, now: number): number {
  return Math.min(until, now + ("maxRetryAfter" in to ? to.maxRetryAfter : 0));
}

export interface HealthState {
  readonly breaker: BreakerState;
  /** Unix ms. */
  readonly pausedUntil: number | null;
  /** Unix ms. */
  readonly openUntil: number | null;
  /** Null: the last attempt delivered, or none is known. */
  readonly failing: Failing | null;
  /** Deliveries in a row that took more than `slowShare` of the timeout. */
  readonly slow: Slow | null;
  readonly stopped: string | null;
}

/** Slower attempts than this share of the destination's timeout are half way to failing. */
const slowShare = 0.5;

interface HealthParts extends SessionParts {
  readonly hooks: Pick<LaneHooks, "paused" | "stopped" | "breakerMoved">;
}

export type Health = ReturnType<typeof createHealth>;

export function createHealth(initial: LaneSettings, parts: HealthParts, notes: RouteNotes) {
  const { clock, hooks } = parts;
  const route = initial.name;
  let stored = notes;
  const time = createSteadyTime(clock);
  let session = openSession(initial, parts, stored, time);
  let failing = notes.failing;
  let slow: Slow | null = null;
  let stopped = notes.stop?.reason ?? null;
  /** Counted, because what was read of the store may be older. */
  let stops = 0;
  /** Only a change is written, so that a delivery costs nothing more. */
  let isFailingStored = failing !== null;

  function recordDecision({ decision, outcome }: AttemptReport, { to }: LaneSettings): void {
    if (decision.kind === "delivered") {
      failing = null;
      slow = outcome.tookMs > slowShare * to.timeout ? onceMore(slow, clock.now()) : null;
    } else if (decision.kind !== "interrupted") {
      const { result } = outcome;
      const cause =
        result.kind === "failed"
          ? result.error
          : result.kind === "answered"
            ? String(result.status)
            : "";
      failing = { ...onceMore(failing, clock.now()), cause };
    }
  }

  /** Half-open is not reported, because time alone causes it. */
  function noticeBreaker(of: DestinationSession): void {
    const state = of.breaker.state();
    if (state === of.seen) return;
    of.seen = state;
    if (state !== "half-open" && of === session) hooks.breakerMoved(route, state);
  }

  function pause({ breaker }: DestinationSession, until: number): boolean {
    const wasPaused = breaker.pausedUntil() > time.now();
    breaker.pause(time.now() + until - clock.now());
    return !wasPaused;
  }

  /** Only of the present settings. */
  function changeOfBreaker(on: DestinationSession): { readonly opened?: OpenNote | null } {
    const opened = on.breaker.opened();
    const until = opened === null ? undefined : time.toUnix(opened.until);
    if (on !== session || until === stored.opened?.until) return {};
    return {
      opened:
        opened === null || until === undefined
          ? null
          : { breaker: breakerName(on.settings), until, pause: opened.pause },
    };
  }

  return {
    session: () => session,
    time,
    reconfigure(settings: LaneSettings): void {
      const isSame = breakerName(settings) === breakerName(session.settings);
      session = openSession(settings, parts, stored, time);
      // What a route matches says nothing about its destination.
      if (isSame) return;
      failing = null;
      slow = null;
    },
    /** `phase`: of the breaker when the attempt began. */
    record(on: DestinationSession, report: AttemptReport, phase: number): void {
      const { decision, outcome } = report;
      const until = pauseOf(decision);
      noticeBreaker(on);
      // A pause does already what the destination asked for.
      const isNeutral = decision.kind === "interrupted" || until !== null;
      on.breaker.record(isNeutral ? "neutral" : breakerVerdict(outcome.result), phase);
      noticeBreaker(on);
      recordDecision(report, on.settings);
      if (until !== null && pause(on, until) && on === session) hooks.paused(route, until);
      if (decision.kind !== "stop") return;
      // Other attempts in flight get the same answer.
      const isNew = stopped === null;
      stopped = decision.reason;
      stops += 1;
      if (isNew) hooks.stopped(route, stopped);
    },
    changes(
      on: DestinationSession,
      decision: Decision,
    ): Pick<Settlement, "pause" | "opened" | "failing"> {
      const until = pauseOf(decision);
      const paused = until === null ? {} : { pause: { breaker: breakerName(on.settings), until } };
      const standing = failing === null && !isFailingStored ? {} : { failing };
      isFailingStored = failing !== null;
      const changed = { ...paused, ...changeOfBreaker(on) };
      stored = { ...stored, ...changed };
      return { ...changed, ...standing };
    },
    stopped: () => stopped,
    isHeldUp: () =>
      session.breaker.pausedUntil() > time.now() || session.breaker.state() !== "closed",
    /**
     * An operator may have ended a stop or a pause. Call it before the notes are read, and its
     * result with them.
     */
    follow(): (next: RouteNotes) => void {
      const before = stops;
      return (next) => {
        const isEnded =
          (stored.pause !== null || stored.opened !== null) &&
          next.pause === null &&
          next.opened === null;
        stored = next;
        if (before === stops) stopped = next.stop?.reason ?? null;
        if (isEnded) session.breaker.tryNow();
      };
    },
    /** True when a pause or an open breaker prevented an attempt. */
    tryNow(): boolean {
      stored = { ...stored, pause: null, opened: null };
      return session.breaker.tryNow();
    },
    state(): HealthState {
      const { breaker } = session;
      const [pausedUntil, openUntil] = [breaker.pausedUntil(), breaker.openUntil()];
      return {
        breaker: breaker.state(),
        pausedUntil: pausedUntil > time.now() ? time.toUnix(pausedUntil) : null,
        openUntil: openUntil === null ? null : time.toUnix(openUntil),
        failing,
        slow,
        stopped,
      };
    },
  };
}

const onceMore = (before: Slow | null, now: number): Slow => ({
  since: before?.since ?? now,
  attempts: (before?.attempts ?? 0) + 1,
});

/*
 * | state | what happens | becomes |
 * |---|---|---|
 * | closed | `failures` failures in a row | open for `pause` |
 * | closed | a success | closed, the count restarts |
 * | open | its time ends, or an operator wants an attempt now | half-open |
 * | half-open | the first `mayStart` | half-open, the probe is in flight: nothing else may start |
 * | half-open | a success | closed, the pause is reset to `pause` |
 * | half-open | a failure | open, for twice the last pause, at most `longest` |
 * | half-open | neutral | half-open, another probe may start |
 *
 * Neutral changes nothing else. There is no timer: each call checks the time.
 *
 * A pause leaves the state as it is. After it, a closed breaker also sends a probe first, because
 * all attempts at once would be answered 429 again. Its record then lets the others start.
 *
 * Each change of state and each pause begins a phase. What an attempt of an earlier phase reports
 * counts for nothing: it says how the destination was before.
 */

interface Opened {
  readonly until: number;
  readonly pause: number;
}

type Breaker = ReturnType<typeof createBreaker>;

/** All times are steady ms. `opened`: it was open before. */
export function createBreaker(
  settings: CommonSettings["breaker"],
  time: () => number,
  opened: Opened | null = null,
) {
  let current: BreakerState = opened === null ? "closed" : "open";
  let failures = 0;
  let pause = opened?.pause ?? settings.pause;
  let until = opened?.until ?? 0;
  let probeOut = false;
  let pausedUntil = 0;
  let afterPause = false;
  let phase = 0;

  function beginPhase(): void {
    phase += 1;
    probeOut = false;
  }

  function move(to: BreakerState): void {
    beginPhase();
    current = to;
    failures = 0;
    if (to === "open") until = time() + pause;
    if (to === "closed") pause = settings.pause;
  }

  function state(): BreakerState {
    if (current === "open" && until <= time()) move("half-open");
    return current;
  }

  const isCautious = (): boolean => state() !== "closed" || afterPause;

  return {
    state,
    /** At most one attempt may start. */
    isCautious,
    /** The last check. `record`, with the phase of now, must follow every true. */
    mayStart(): boolean {
      if (!isCautious()) return true;
      if (current === "open" || probeOut) return false;
      probeOut = true;
      return true;
    },
    phase: (): number => phase,
    waitsForProbe: (): boolean => isCautious() && probeOut,
    openUntil: (): number | null => (state() === "open" ? until : null),
    /** Null while closed. */
    opened: (): Opened | null => (state() === "closed" ? null : { until, pause }),
    /** `begunIn`: the phase in which the attempt began. */
    record(ok: boolean | "neutral", begunIn: number): void {
      if (begunIn !== phase) return;
      probeOut = false;
      afterPause = false;
      if (ok === "neutral") return;
      if (ok) {
        if (current === "half-open") move("closed");
        failures = 0;
      } else if (current === "half-open") {
        pause = Math.max(settings.pause, Math.min(pause * 2, settings.longest));
        move("open");
      } else {
        failures += 1;
        if (failures >= settings.failures) move("open");
      }
    },
    /** Leaves the state as it is. */
    pause(at: number): void {
      if (at <= time()) return;
      beginPhase();
      pausedUntil = Math.max(pausedUntil, at);
      afterPause = true;
    },
    /** 0: there was none. */
    pausedUntil: (): number => pausedUntil,
    /** An operator wants an attempt now. True when a pause or an open breaker prevented it. */
    tryNow(): boolean {
      const waits = pausedUntil > time() || state() === "open";
      pausedUntil = 0;
      if (current === "open") move("half-open");
      return waits;
    },
  };
}

/** Of the destination. A 4xx other than 408 and 429 concerns the one delivery. */
export function breakerVerdict(result: AttemptResult): boolean | "neutral" {
  // As a 4xx, `rejected` may concern one delivery.
  if (result.kind === "failed")
    return ["aborted", "internal", "rejected"].includes(result.error) ? "neutral" : false;
  if (result.kind === "taken") return true;
  const { status } = result;
  if (status >= 200 && status < 300) return true;
  return status >= 400 && status < 500 && status !== 408 && status !== 429 ? "neutral" : false;
}
