import { createHash } from "node:crypto";
import type { SharedAnswer, SharedCaps } from "../../model/shared-caps.ts";
import type { BreakerState, BreakerView, SharedBreaker, SharedBreakerStep, SharedRate } from "../../model/shared-limits.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import { keysOf } from "./keys.ts";
import { readScript } from "./script.ts";

interface RedisBreaker extends SharedBreaker {
  /** Ends the pause for all processes, and an open breaker is half-open; true when there was either. */
  tryNow(settings: SharedBreakerStep["settings"]): Promise<boolean>;
}

const breakerScript = readScript("breaker");

/**
 * The breaker of one destination, shared by all processes with the same `prefix` and `name`. `now` is for tests; by default
 * Redis' clock counts.
 */
export function createRedisBreaker(link: RedisLink, prefix: string, name: string, now?: () => number): RedisBreaker {
  const key = keysOf(prefix).of(`breaker:${name}`);

  async function step({ holder, verdicts, probeMs, pauseMs, settings }: SharedBreakerStep, triesNow = false) {
    const { failures, pause, longest } = settings;
    const asked = [now?.() ?? "", holder, verdicts, probeMs ?? "", pauseMs ?? "", failures, pause, longest, triesNow ? 1 : ""];
    const list = asked.map(String);
    const answer = (await link.run((redis) => breakerScript.run(redis, key, list))) as [BreakerState, ...(string | number)[]];
    const [state, ...rest] = answer;
    const [failed, openMs, probeLeft, owns, pausedMs, ended] = rest.map(Number) as [number, number, number, number, number, number];
    return { state, failures: failed, openMs, probeMs: probeLeft, ownsProbe: owns === 1, pausedMs, ended: ended === 1 };
  }

  return {
    async step(ask) {
      const { ended: _, ...news } = await step(ask);
      return news;
    },
    async tryNow(settings) {
      return (await step({ holder: "", verdicts: "", probeMs: null, pauseMs: null, settings }, true)).ended;
    },
  };
}

/**
 * Reads the states of breakers by name, without changing them. An open breaker whose time is over is half-open.
 * `pausedUntil` is unix ms by Redis' clock; null when it is not paused.
 */
export async function readRedisBreakers(
  link: RedisLink,
  prefix: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, BreakerView>> {
  if (names.length === 0) return new Map();
  const keys = keysOf(prefix);
  const answers = await runPipeline(link, (commands) => {
    commands.time();
    for (const name of names) commands.hmget(keys.of(`breaker:${name}`), "state", "until", "pausedUntil", "since");
  });
  const [time = [], ...rows] = answers as (string | null)[][];
  const now = Number(time[0]) * 1000 + Number(time[1]) / 1000;
  return new Map(
    names.map((name, at) => {
      const [state, until, paused, since] = rows[at] ?? [];
      const isOver = state === "open" && Number(until) <= now;
      const pausedUntil = Number(paused ?? 0) > now ? Number(paused) : null;
      const view: BreakerView = {
        state: isOver ? "half-open" : ((state ?? "closed") as BreakerState),
        pausedUntil,
        openUntil: state === "open" && !isOver ? Number(until) : null,
        failingSince: Number(since ?? 0) === 0 ? null : Number(since),
      };
      return [name, view];
    }),
  );
}

const rateScript = readScript("rate");

/**
 * The token bucket of one destination, shared by all processes with the same `prefix` and `name`. `now` is for tests; by
 * default Redis' clock counts.
 */
export function createRedisRate(link: RedisLink, prefix: string, name: string, now?: () => number): SharedRate {
  const key = keysOf(prefix).of(`rate:${name}`);
  return {
    async take({ want, interval, saved }) {
      const list = [now?.() ?? "", want, interval, saved].map(String);
      const [taken, waitMs] = (await link.run((redis) => rateScript.run(redis, key, list))) as [number, number];
      return { taken, waitMs };
    },
  };
}

interface RedisCaps extends SharedCaps {
  /** The latest shared state, with its steady clock and wall time; null when there is none. Writes nothing. */
  read(): Promise<{ readonly state: string; readonly now: number; readonly wall: number } | null>;
}

const capsScript = readScript("caps");

/**
 * The caps of an account, shared by all processes with the same `prefix`, `account` and `baseUrl`; another base URL is
 * another account at the service. `now` is for tests; by default Redis' clock counts.
 */
export function createRedisCaps(link: RedisLink, prefix: string, account: string, baseUrl: string, now?: () => number): RedisCaps {
  const place = createHash("sha256").update(baseUrl).digest("hex").slice(0, 8);
  const key = keysOf(prefix).of(`caps:${account}:${place}`);
  return {
    async step({ wants, ended, renewed, next, ...ask }) {
      // Lua has no null, so the field is left out; Lua counts from 1.
      const request = {
        ...ask,
        wants,
        ended: ended.map(({ kind, ...one }) => ({ ...one, ...(kind === null ? {} : { kind: kind + 1 }) })),
        renewed: renewed.map(({ id, kind }) => ({ id, kind: kind + 1 })),
        ...(next === null ? {} : { next }),
      };
      const text = await link.run((redis) => capsScript.run(redis, key, [JSON.stringify(request), now === undefined ? "" : String(now())]));
      const { granted, ...answer } = JSON.parse(text as string) as SharedAnswer;
      // Lua encodes an empty list as an object.
      return { ...answer, granted: (Array.isArray(granted) ? granted : []).map((slot) => ({ ...slot, kind: slot.kind - 1 })) };
    },
    async read() {
      const [state, steady, wall] = await link.run((redis) => redis.hmget(key, "state", "now", "wall"));
      return state == null ? null : { state, now: Number(steady), wall: Number(wall) };
    },
  };
}
