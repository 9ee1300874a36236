import { setImmediate as turn } from "node:timers/promises";
import type { Clock } from "../model/clock.ts";

/** Of the one thread that receives and delivers, at most this share goes into work that can wait. */
const share = 0.2;
/** Longest that such work holds up a turn of the event loop, in ms, but for its last piece. */
const sliceMs = 3;
/** Longest rest, in ms: a stall of the whole machine is nobody's work. */
const longestRestMs = 50;

/**
 * Runs small pieces of work in the order in which they are asked for, some in a turn of the event loop, with rests in
 * proportion to the time they took: however many ask, no more is taken from receiving and delivering. `elapsed` is in ms.
 */
export function createTurns(clock: Clock, elapsed: () => number = () => performance.now()): <T>(run: () => T) => Promise<T> {
  const queue: (() => void)[] = [];
  let isRunning = false;

  async function work(): Promise<void> {
    isRunning = true;
    while (queue.length > 0) {
      await turn();
      const startedAt = elapsed();
      do queue.shift()?.();
      while (queue.length > 0 && elapsed() - startedAt < sliceMs);
      const restMs = Math.min(longestRestMs, Math.round((elapsed() - startedAt) * (1 / share - 1)));
      if (restMs > 0) await new Promise<void>((resolve) => void clock.after(restMs, resolve));
    }
    isRunning = false;
  }

  return (run) =>
    new Promise((resolve, reject) => {
      queue.push(() => {
        try {
          resolve(run());
        } catch (error) {
          reject(error);
        }
      });
      if (!isRunning) void work();
    });
}
