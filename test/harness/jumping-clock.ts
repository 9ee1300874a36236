import type { Clock } from "../../src/model/clock.ts";

/** A clock that goes as the machine's does, or faster, and can be put forward. */
export interface JumpingClock extends Clock {
  /** Puts it forward; what falls due on the way is called now, in order. */
  jump(ms: number): void;
}

export function createJumpingClock({
  speed = 1,
  start = Date.now(),
}: {
  readonly speed?: number;
  readonly start?: number;
} = {}): JumpingClock {
  const began = performance.now();
  let jumped = 0;
  const now = (): number => Math.floor(start + (performance.now() - began) * speed + jumped);
  const timers = new Set<{ at: number; run: () => void; handle: NodeJS.Timeout }>();
  return {
    now,
    after(ms, run) {
      const timer = {
        at: now() + ms,
        run() {
          clearTimeout(timer.handle);
          if (timers.delete(timer)) run();
        },
        handle: setTimeout(() => timer.run(), Math.min(ms / speed, 2 ** 31 - 1)),
      };
      timers.add(timer);
      return () => {
        clearTimeout(timer.handle);
        timers.delete(timer);
      };
    },
    jump(ms) {
      const until = now() + ms;
      for (;;) {
        const [next] = [...timers].filter(({ at }) => at <= until).sort((a, b) => a.at - b.at);
        if (next === undefined) break;
        jumped += Math.max(0, next.at - now());
        next.run();
      }
      jumped += Math.max(0, until - now());
    },
  };
}
