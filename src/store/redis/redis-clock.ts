import type { Clock } from "../../event/clock.ts";
import type { Redis } from "./client.ts";
import { readScript } from "./script.ts";

/**
 * Redis' time, on this process: for all that processes compare, because the clocks of their hosts differ and may be set.
 * With a clock each, one that is an hour ahead ends what another has just parked, and calls an exchange dead that another
 * is at.
 */
export interface RedisClock extends Clock {
  /** Asks what time it is. To be called on every connection, and again and again: no two clocks go at the same pace. */
  follow(redis: Redis, key: string): Promise<void>;
}

const script = readScript("time");

/** Unix ms, with fractions, as the server has it that keeps `key`: of a Cluster not every node has the same. */
export async function readTime(redis: Redis, key: string): Promise<number> {
  const [seconds, micros] = (await script.run(redis, key, [])) as [string, string];
  return Number(seconds) * 1000 + Number(micros) / 1000;
}

/**
 * Until Redis was asked it is `machine`'s time; then that goes on with `steady` (ms, never set), so that nothing is lost
 * while Redis is away, and setting the machine's clock changes nothing.
 */
export function createRedisClock(machine: Clock, steady: () => number = () => performance.now()): RedisClock {
  /** Redis' time when `steady` was 0; null: not known yet. */
  let began: number | null = null;
  return {
    now: () => (began === null ? machine.now() : Math.floor(steady() + began)),
    after: machine.after,
    async follow(redis, key) {
      const sentAt = steady();
      const told = await readTime(redis, key);
      // It was that time at some moment on the way: what was known before stays, as far as that leaves it possible. So it
      // is the fastest answers that count, and a slow one does not make time go to and fro.
      const least = told - steady();
      const most = told - sentAt;
      began = Math.min(most, Math.max(least, began ?? (least + most) / 2));
    },
  };
}
