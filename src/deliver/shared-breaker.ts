import type { Clock } from "../model/clock.ts";
import type { BreakerState, SharedBreaker, SharedBreakerAnswer } from "../model/shared-limits.ts";
import { type Breaker, createBreaker } from "./breaker.ts";
import type { CommonSettings } from "./settings.ts";

interface SharedBreakerParts {
  readonly shared: SharedBreaker;
  readonly clock: Clock;
  readonly holder: string;
  /** After this long a probe counts as lost. Longer than an attempt may take. */
  readonly probeMs: number;
  /** Called after a change that a lane may be waiting for. */
  readonly changed: () => void;
}

/** Poll intervals: while there is work, and while another process has the probe. */
const pollMs = 1000;
const probePollMs = 250;

/** After this long without a poll, the state is read before the next start. */
const staleMs = 2000;

/** A granted probe that does not start is returned after this long. */
const unusedProbeMs = 1000;

interface Known {
  readonly state: BreakerState;
  readonly failures: number;
  /** Unix ms on this process's clock. */
  readonly openUntil: number;
  readonly probeUntil: number;
  readonly ownsProbe: boolean;
  readonly pausedUntil: number;
  readonly at: number;
}

const unknown: Known = {
  state: "closed",
  failures: 0,
  openUntil: 0,
  probeUntil: 0,
  ownsProbe: false,
  pausedUntil: 0,
  at: Number.NEGATIVE_INFINITY,
};

/**
 * The breaker of one destination over all processes. It answers at once from the last known state. Successes are not
 * reported while nothing has failed, failures are reported at once, and other processes' reports arrive within a second.
 * When half-open it requests the probe and calls `changed` once the probe is granted. While the store is down it falls
 * back to a breaker of this process, which has counted all along.
 */
export function createSharedBreaker(settings: CommonSettings["breaker"], parts: SharedBreakerParts): Breaker {
  const { shared, clock, holder, changed } = parts;
  const local = createBreaker(settings, clock.now);
  let known = unknown;
  let alone = false;
  let closed = false;
  /** Verdicts for the next step, and those of the step in flight. */
  let unreported = "";
  let reporting = "";
  let unreportedPause = 0;
  let wantsProbe = false;
  let flying = false;
  let probeUsed = false;
  /** A start was refused because the state was not known yet. */
  let waiting = false;
  /** Used since the last poll. */
  let active = false;
  let pollAt = Number.POSITIVE_INFINITY;
  let cancelPoll: () => void = () => {};
  let cancelProbe: () => void = () => {};

  /** Shifts the known times when the clock was set back. */
  function noticeSetBack(): void {
    const ms = known.at - clock.now();
    if (ms <= 0) return;
    known = {
      ...known,
      openUntil: known.openUntil - ms,
      probeUntil: known.probeUntil - ms,
      pausedUntil: known.pausedUntil - ms,
      at: known.at - ms,
    };
  }

  function state(): BreakerState {
    if (alone) return local.state();
    noticeSetBack();
    if (known.state === "open" && known.openUntil <= clock.now()) known = { ...known, state: "half-open", probeUntil: 0, ownsProbe: false };
    return known.state;
  }

  function report(verdict: string): void {
    // Successes in a row count as one.
    if (verdict !== "s" || !unreported.endsWith("s")) unreported += verdict;
    void step();
  }

  async function step(): Promise<void> {
    if (flying || closed) return;
    flying = true;
    const before = describe();
    reporting = unreported;
    unreported = "";
    const pauseMs = unreportedPause > clock.now() ? unreportedPause - clock.now() : null;
    const probeMs = wantsProbe ? parts.probeMs : null;
    const pauseUntil = unreportedPause;
    unreportedPause = 0;
    wantsProbe = false;
    try {
      const answer = await shared.step({ holder, verdicts: reporting, probeMs, pauseMs, settings });
      apply(answer, probeMs !== null);
    } catch {
      alone = true;
      unreportedPause = Math.max(unreportedPause, pauseUntil);
    }
    reporting = "";
    flying = false;
    if (closed) return;
    schedulePoll();
    if (waiting || describe() !== before) {
      waiting = false;
      changed();
    }
    // A pause that could not be reported is sent with the next poll.
    if (unreported !== "" || (unreportedPause > 0 && !alone) || wantsProbe) void step();
  }

  function apply(answer: SharedBreakerAnswer, probeRequested: boolean): void {
    const now = clock.now();
    alone = false;
    if (probeRequested && answer.ownsProbe) {
      probeUsed = false;
      cancelProbe();
      cancelProbe = clock.after(unusedProbeMs, () => {
        if (!probeUsed) report("n");
      });
    }
    known = {
      state: answer.state,
      failures: answer.failures,
      openUntil: now + answer.openMs,
      probeUntil: answer.probeMs === 0 ? 0 : now + answer.probeMs,
      ownsProbe: answer.ownsProbe,
      pausedUntil: answer.pausedMs === 0 ? 0 : now + answer.pausedMs,
      at: now,
    };
    // Nothing of its own is unreported, so a pause that another process ended has ended here too.
    if (unreportedPause > 0) return;
    local.endPause();
    local.pause(known.pausedUntil);
  }

  function pausedUntil(): number {
    noticeSetBack();
    // The local pause counts until it is reported, and while the store is down.
    return Math.max(known.pausedUntil, local.pausedUntil());
  }

  /** Everything a lane may be waiting for, as text for comparison. */
  function describe(): string {
    return `${alone} ${state()} ${known.probeUntil > 0} ${known.ownsProbe} ${known.pausedUntil > clock.now()}`;
  }

  /** Schedules the next poll while there is work or the breaker is not closed. */
  function schedulePoll(): void {
    if (closed) return;
    const waitsForOther = !alone && state() === "half-open" && known.probeUntil > 0 && !known.ownsProbe;
    // Without work here, an open or paused breaker is still polled: other processes and operators change it, and it is displayed.
    if (!active && !alone && state() === "closed" && pausedUntil() <= clock.now()) return;
    const ms = waitsForOther ? probePollMs : pollMs;
    if (clock.now() + ms >= pollAt) return;
    cancelPoll();
    pollAt = clock.now() + ms;
    cancelPoll = clock.after(ms, () => {
      pollAt = Number.POSITIVE_INFINITY;
      active = false;
      void step();
    });
  }

  function noteUse(): void {
    active = true;
    schedulePoll();
  }

  function wait(): false {
    waiting = true;
    void step();
    return false;
  }

  function failuresUnreported(): number {
    const verdicts = reporting + unreported;
    return verdicts.length - 1 - Math.max(verdicts.lastIndexOf("s"), -1);
  }

  return {
    state,
    mayStart() {
      noteUse();
      if (alone) return local.mayStart();
      const now = clock.now();
      const current = state();
      if (current === "open") return false;
      if (current === "closed") {
        if (now - known.at > staleMs) return wait();
        // Waits when the unreported failures would open it.
        return known.failures + failuresUnreported() < settings.failures || wait();
      }
      if (known.ownsProbe && !probeUsed && known.probeUntil > now) {
        probeUsed = true;
        return true;
      }
      wantsProbe = true;
      return wait();
    },
    waitsForProbe() {
      if (alone) return local.waitsForProbe();
      if (state() !== "half-open" || known.probeUntil <= clock.now()) return false;
      noteUse();
      return !known.ownsProbe || probeUsed;
    },
    opened: () => null,
    openUntil: () => (alone ? local.openUntil() : state() === "open" ? known.openUntil : null),
    record(ok) {
      local.record(ok);
      active = true;
      if (ok === "neutral") {
        if (known.ownsProbe && probeUsed) report("n");
      } else if (!ok) report("f");
      else if (state() !== "closed" || known.failures > 0 || failuresUnreported() > 0) report("s");
      schedulePoll();
    },
    pause(until) {
      if (until <= clock.now()) return;
      local.pause(until);
      unreportedPause = Math.max(unreportedPause, until);
      void step();
    },
    pausedUntil,
    tryNow() {
      const isOpen = state() === "open";
      const waits = isOpen || pausedUntil() > clock.now();
      local.tryNow();
      known = { ...known, pausedUntil: 0, ...(isOpen ? { state: "half-open", probeUntil: 0, ownsProbe: false } : {}) };
      unreportedPause = 0;
      return waits;
    },
    close() {
      closed = true;
      cancelPoll();
      cancelProbe();
    },
  };
}
