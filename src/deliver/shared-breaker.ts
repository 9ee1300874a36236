import type { Clock } from "../event/clock.ts";
import { type Breaker, type BreakerState, createBreaker } from "./breaker.ts";
import type { LineSettings } from "./settings.ts";

/** The breaker of a destination as all processes have it; the table is that of `breaker.ts`. */
export interface SharedBreaker {
  /** Tells and asks in one step. Rejects when the store is down: whether it happened is not known then. */
  step(ask: SharedBreakerAsk): Promise<SharedBreakerNews>;
}

interface SharedBreakerAsk {
  /** Names this process. */
  readonly holder: string;
  /** What came of attempts, in their order: `s` success, `f` failure, `n` neither. */
  readonly verdicts: string;
  /** Asks to let the probe through: how long it may be out, in milliseconds. */
  readonly probeMs: number | null;
  /** The destination asked not to be called for so long, in milliseconds. */
  readonly pauseMs: number | null;
  readonly settings: LineSettings["breaker"];
}

/** Times are milliseconds from now; 0 when there is none. */
interface SharedBreakerNews {
  readonly state: BreakerState;
  /** One after the other, while closed. */
  readonly failures: number;
  readonly openMs: number;
  /** How long the probe that is out may still be out, and whether it is the asker's. */
  readonly probeMs: number;
  readonly ownsProbe: boolean;
  readonly pausedMs: number;
}

interface SharedBreakerParts {
  readonly shared: SharedBreaker;
  readonly clock: Clock;
  readonly holder: string;
  /** Longer than an attempt may take: after that a probe is thought dead. */
  readonly probeMs: number;
  /** Something changed that a lane may be waiting for. */
  readonly changed: () => void;
}

/** What is known is asked for again this often while there is work, and while a probe of another is out. */
const lookEveryMs = 1000;
const lookForProbeMs = 250;

/** Of a destination that was idle for so long the state is asked for before the next start. */
const staleMs = 2000;

/** A probe that was let through and not started goes back after so long. */
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
 * The breaker of one destination over all processes. It answers at once from what is known: successes
 * while nothing has failed are told nobody, failures are told at once, and what others told is learned
 * within a second. Half-open, the probe is asked for, and `changed` is called when it is let through.
 * While the store is down it is this process's breaker alone, which has counted along.
 */
export function createSharedBreaker(settings: LineSettings["breaker"], parts: SharedBreakerParts): Breaker {
  const { shared, clock, holder, changed } = parts;
  const local = createBreaker(settings, clock.now);
  let known = unknown;
  let alone = false;
  let closed = false;
  /** To be told with the next step, and being told. */
  let untold = "";
  let telling = "";
  let pauseTold = 0;
  let wantsProbe = false;
  let flying = false;
  let probeUsed = false;
  /** Somebody was refused a start for want of an answer. */
  let waiting = false;
  /** Asked for since the last look. */
  let active = false;
  let lookAt = Number.POSITIVE_INFINITY;
  let cancelLook: () => void = () => {};
  let cancelProbe: () => void = () => {};

  /** What is known goes on from now, when the clock was set back. */
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

  function tell(verdict: string): void {
    // A long run of successes says no more than one.
    if (verdict !== "s" || !untold.endsWith("s")) untold += verdict;
    void step();
  }

  async function step(): Promise<void> {
    if (flying || closed) return;
    flying = true;
    const before = describe();
    telling = untold;
    untold = "";
    const pauseMs = pauseTold > clock.now() ? pauseTold - clock.now() : null;
    const probeMs = wantsProbe ? parts.probeMs : null;
    const toldUntil = pauseTold;
    pauseTold = 0;
    wantsProbe = false;
    try {
      const news = await shared.step({ holder, verdicts: telling, probeMs, pauseMs, settings });
      learn(news, probeMs !== null);
    } catch {
      alone = true;
      pauseTold = Math.max(pauseTold, toldUntil);
    }
    telling = "";
    flying = false;
    if (closed) return;
    look();
    if (waiting || describe() !== before) {
      waiting = false;
      changed();
    }
    // A pause that could not be told goes with the next look.
    if (untold !== "" || (pauseTold > 0 && !alone) || wantsProbe) void step();
  }

  function learn(news: SharedBreakerNews, asked: boolean): void {
    const now = clock.now();
    alone = false;
    if (asked && news.ownsProbe) {
      probeUsed = false;
      cancelProbe();
      cancelProbe = clock.after(unusedProbeMs, () => {
        if (!probeUsed) tell("n");
      });
    }
    known = {
      state: news.state,
      failures: news.failures,
      openUntil: now + news.openMs,
      probeUntil: news.probeMs === 0 ? 0 : now + news.probeMs,
      ownsProbe: news.ownsProbe,
      pausedUntil: news.pausedMs === 0 ? 0 : now + news.pausedMs,
      at: now,
    };
    // All of its own is told: what others ended has ended here too.
    if (pauseTold > 0) return;
    local.endPause();
    local.pause(known.pausedUntil);
  }

  function pausedUntil(): number {
    noticeSetBack();
    // Its own too: until it is told, and while nobody can be.
    return Math.max(known.pausedUntil, local.pausedUntil());
  }

  /** All that a lane may be waiting for, to see whether it changed. */
  function describe(): string {
    return `${alone} ${state()} ${known.probeUntil > 0} ${known.ownsProbe} ${known.pausedUntil > clock.now()}`;
  }

  /** The next look at what others told: while there is work, or it is not closed. */
  function look(): void {
    if (closed) return;
    const waitsForOther = !alone && state() === "half-open" && known.probeUntil > 0 && !known.ownsProbe;
    // Not closed, or paused: with nothing to send here, others' probes and operators decide, and what is shown of it should be true.
    if (!active && !alone && state() === "closed" && pausedUntil() <= clock.now()) return;
    const ms = waitsForOther ? lookForProbeMs : lookEveryMs;
    if (clock.now() + ms >= lookAt) return;
    cancelLook();
    lookAt = clock.now() + ms;
    cancelLook = clock.after(ms, () => {
      lookAt = Number.POSITIVE_INFINITY;
      active = false;
      void step();
    });
  }

  function isAsked(): void {
    active = true;
    look();
  }

  function wait(): false {
    waiting = true;
    void step();
    return false;
  }

  function failuresUntold(): number {
    const verdicts = telling + untold;
    return verdicts.length - 1 - Math.max(verdicts.lastIndexOf("s"), -1);
  }

  return {
    state,
    mayStart() {
      isAsked();
      if (alone) return local.mayStart();
      const now = clock.now();
      const current = state();
      if (current === "open") return false;
      if (current === "closed") {
        if (now - known.at > staleMs) return wait();
        // As many failures as open it are on their way.
        return known.failures + failuresUntold() < settings.failures || wait();
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
      isAsked();
      return !known.ownsProbe || probeUsed;
    },
    openUntil: () => (alone ? local.openUntil() : state() === "open" ? known.openUntil : null),
    record(ok) {
      local.record(ok);
      active = true;
      if (ok === "neutral") {
        if (known.ownsProbe && probeUsed) tell("n");
      } else if (!ok) tell("f");
      else if (state() !== "closed" || known.failures > 0 || failuresUntold() > 0) tell("s");
      look();
    },
    pause(until) {
      if (until <= clock.now()) return;
      local.pause(until);
      pauseTold = Math.max(pauseTold, until);
      void step();
    },
    pausedUntil,
    endPause() {
      const wasPaused = pausedUntil() > clock.now();
      local.endPause();
      known = { ...known, pausedUntil: 0 };
      pauseTold = 0;
      return wasPaused;
    },
    close() {
      closed = true;
      cancelLook();
      cancelProbe();
    },
  };
}
