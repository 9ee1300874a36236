import type { Clock } from "../model/clock.ts";
import { createAgenda } from "./agenda.ts";

/** The sandbox's time, as those who command it see it. Runs like the clock beneath it until it is stopped or moved. */
export interface ClockControls {
  /** Unix milliseconds. */
  now(): number;
  readonly isFrozen: boolean;
  /** Moves time on by `ms`; what falls due on the way happens in order, each at its own time. */
  advance(ms: number): void;
  /** Stands still until `thaw`; `advance` still moves it. */
  freeze(): void;
  thaw(): void;
}

export interface SandboxClock extends Clock, ClockControls {
  /** Cancels everything planned. */
  close(): void;
}

/** `start`: unix milliseconds to begin at; not given: the time of `base`. */
export function createSandboxClock(base: Clock, start = base.now()): SandboxClock {
  const agenda = createAgenda();
  /** Sandbox time minus base time while running; the time itself while frozen. */
  let offset = start - base.now();
  let frozenAt: number | null = null;
  /** During a jump the time is that of the thing being done. */
  let doing: number | null = null;
  let wake: { at: number; cancel: () => void } | null = null;
  let closed = false;

  const now = () => doing ?? frozenAt ?? base.now() + offset;
  const runUntil = (until: number, isJump: boolean): void => {
    const from = now();
    for (let next = agenda.nextAt(); next !== null && next <= until; next = agenda.nextAt()) {
      if (isJump) doing = Math.max(next, from);
      try {
        agenda.take()?.();
      } finally {
        doing = null;
      }
    }
  };
  const plan = (): void => {
    const next = agenda.nextAt();
    if (closed || frozenAt !== null || next === null) {
      wake?.cancel();
      wake = null;
      return;
    }
    if (wake !== null && wake.at <= next) return;
    wake?.cancel();
    const cancel = base.after(Math.max(0, next - now()), () => {
      wake = null;
      try {
        runUntil(now(), false);
      } finally {
        plan();
      }
    });
    wake = { at: next, cancel };
  };
  return {
    now,
    after(ms, run) {
      if (closed) return () => {};
      const cancel = agenda.add(now() + Math.max(0, ms), run);
      if (doing === null) plan();
      return cancel;
    },
    advance(ms) {
      const until = now() + ms;
      runUntil(until, true);
      if (frozenAt === null) offset = until - base.now();
      else frozenAt = until;
      // The wake-up was set for the time before the jump.
      wake?.cancel();
      wake = null;
      plan();
    },
    freeze() {
      frozenAt ??= now();
      plan();
    },
    thaw() {
      if (frozenAt === null) return;
      offset = frozenAt - base.now();
      frozenAt = null;
      plan();
    },
    get isFrozen() {
      return frozenAt !== null;
    },
    close() {
      closed = true;
      plan();
    },
  };
}
