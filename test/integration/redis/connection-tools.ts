import { expect, onTestFinished } from "vitest";
import type { Clock } from "../../../src/model/clock.ts";
import { Secret } from "../../../src/model/secret.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { connectRedis, type RedisConnection, type RedisHooks, type RedisState } from "../../../src/store/redis/connection.ts";
import type { RedisSettings } from "../../../src/store/settings.ts";
import { until } from "../../harness/until.ts";

/** For tests in which Redis hangs. */
export const commandTimeout = 2_000;
/** For all others: a busy machine is no fault of Redis. */
const patientTimeout = 30_000;

export function redisSettings(url: string, more: Partial<Omit<RedisSettings, "url">> = {}): RedisSettings {
  return { driver: "redis", url: new Secret(url), prefix: "relay", commandTimeout: patientTimeout, cluster: false, ...more };
}

export interface Watched {
  readonly redis: RedisConnection;
  /** Every move so far: `up`, or the kind of the fault. */
  readonly moves: string[];
  /** Resolves once it stands so: `up`, or a kind of fault. */
  stands(as: string): Promise<void>;
}

const standing = (state: RedisState): string => (state.kind === "up" ? "up" : state.fault.kind);

/** A connection that is closed at the test's end, and whose moves are kept. */
export function watch(settings: RedisSettings, hooks: RedisHooks = {}, clock: Clock = systemClock): Watched {
  const moves: string[] = [];
  const redis = connectRedis(
    settings,
    {
      clock,
      random: () => 0.5,
      presence: { id: Math.random().toString(36), role: "both", host: "test", pid: process.pid, version: "0", since: Date.now() },
    },
    { ...hooks, moved: (state) => moves.push(standing(state)) },
  );
  onTestFinished(() => redis.close());
  return {
    redis,
    moves,
    async stands(as) {
      await until(`the connection stands as ${as}`, () => standing(redis.state()) === as);
    },
  };
}

/** The errors of several commands in a row. Fails when each of them waited for Redis: a busy machine slows some, not all. */
export async function failingAtOnce(redis: RedisConnection): Promise<(Error & { kind?: string; mayBeDone?: boolean })[]> {
  const failures = [await failing(redis), await failing(redis), await failing(redis)];
  expect(Math.min(...failures.map(({ tookMs }) => tookMs))).toBeLessThan(commandTimeout);
  return failures.map(({ error }) => error);
}

/** How long a command takes to fail, in ms, and why. */
export async function failing(
  redis: RedisConnection,
): Promise<{ readonly error: Error & { kind?: string; mayBeDone?: boolean }; readonly tookMs: number }> {
  const startedAt = performance.now();
  const error = await redis
    .run((client) => client.set("{relay}:k", "v"))
    .then(
      () => new Error("it did not fail"),
      (error: Error) => error,
    );
  return { error, tookMs: performance.now() - startedAt };
}
