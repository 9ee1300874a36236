import type { RedisLink } from "./client.ts";
import { keysOf } from "./keys.ts";
import { readScript } from "./script.ts";

/** All in milliseconds, but the tokens. */
export interface RateAsk {
  readonly want: number;
  readonly interval: number;
  /** Worth of how much time may be saved up. */
  readonly saved: number;
}

export interface RedisRate {
  /** Gives the tokens taken, and the time until there is another. Rejects as the link does: whether they were taken is not known then. */
  take(ask: RateAsk): Promise<{ readonly taken: number; readonly waitMs: number }>;
}

const script = readScript("rate");

/**
 * The rate of one destination, shared over Redis by all that give the same `prefix` and `name`. `now` is for tests, and the
 * same for all processes; not given, it is Redis's own clock, so that those of the hosts need not agree.
 */
export function createRedisRate(link: RedisLink, prefix: string, name: string, now?: () => number): RedisRate {
  const key = keysOf(prefix).of(`rate:${name}`);
  return {
    async take({ want, interval, saved }) {
      const list = [now?.() ?? "", want, interval, saved].map(String);
      const [taken, waitMs] = (await link.run((redis) => script.run(redis, key, list))) as [number, number];
      return { taken, waitMs };
    },
  };
}
