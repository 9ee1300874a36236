import { createHash } from "node:crypto";
import { type RedisLink, runPipeline } from "./client.ts";
import { keysOf } from "./keys.ts";
import { readScript } from "./script.ts";

/** A report and request of one process about a destination; see `lua/breaker.lua`. Times are milliseconds from now. */
interface BreakerAsk {
  readonly holder: string;
  /** Results of attempts, in order: `s` success, `f` failure, `n` neither. */
  readonly verdicts: string;
  /** How long the probe may take, when one is requested. */
  readonly probeMs: number | null;
  /** Pause that the destination asked for. */
  readonly pauseMs: number | null;
  readonly settings: { readonly failures: number; readonly pause: number; readonly longest: number };
}

interface BreakerNews {
  readonly state: "closed" | "open" | "half-open";
  readonly failures: number;
  readonly openMs: number;
  readonly probeMs: number;
  readonly ownsProbe: boolean;
  readonly pausedMs: number;
}

interface RedisBreaker {
  /** Rejects as the link does: whether it happened is not known then. */
  step(ask: BreakerAsk): Promise<BreakerNews>;
  /** Ends the pause for all processes; true when there was one. */
  endPause(settings: BreakerAsk["settings"]): Promise<boolean>;
}

const breakerScript = readScript("breaker");

/**
 * The breaker of one destination, shared by all processes with the same `prefix` and `name`. `now` is for tests; by default
 * Redis' clock counts.
 */
export function createRedisBreaker(link: RedisLink, prefix: string, name: string, now?: () => number): RedisBreaker {
  const key = keysOf(prefix).of(`breaker:${name}`);

  async function step({ holder, verdicts, probeMs, pauseMs, settings }: BreakerAsk, endsPause = false) {
    const { failures, pause, longest } = settings;
    const asked = [now?.() ?? "", holder, verdicts, probeMs ?? "", pauseMs ?? "", failures, pause, longest, endsPause ? 1 : ""];
    const list = asked.map(String);
    const answer = (await link.run((redis) => breakerScript.run(redis, key, list))) as [BreakerNews["state"], ...(string | number)[]];
    const [state, ...rest] = answer;
    const [failed, openMs, probeLeft, owns, pausedMs, ended] = rest.map(Number) as [number, number, number, number, number, number];
    return { state, failures: failed, openMs, probeMs: probeLeft, ownsProbe: owns === 1, pausedMs, ended: ended === 1 };
  }

  return {
    async step(ask) {
      const { ended: _, ...news } = await step(ask);
      return news;
    },
    async endPause(settings) {
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
): Promise<ReadonlyMap<string, { readonly state: BreakerNews["state"]; readonly pausedUntil: number | null }>> {
  if (names.length === 0) return new Map();
  const keys = keysOf(prefix);
  const answers = await runPipeline(link, (commands) => {
    commands.time();
    for (const name of names) commands.hmget(keys.of(`breaker:${name}`), "state", "until", "pausedUntil");
  });
  const [time = [], ...rows] = answers as (string | null)[][];
  const now = Number(time[0]) * 1000 + Number(time[1]) / 1000;
  return new Map(
    names.map((name, at) => {
      const [state, until, paused] = rows[at] ?? [];
      const isOver = state === "open" && Number(until) <= now;
      const pausedUntil = Number(paused ?? 0) > now ? Number(paused) : null;
      return [name, { state: isOver ? "half-open" : ((state ?? "closed") as BreakerNews["state"]), pausedUntil }];
    }),
  );
}

/** Times in ms. */
interface RateAsk {
  readonly want: number;
  readonly interval: number;
  /** Burst size, as the time it takes to fill. */
  readonly saved: number;
}

interface RedisRate {
  /** Returns the tokens taken, and the time until the next one. Rejects as the link does; the tokens may have been taken then. */
  take(ask: RateAsk): Promise<{ readonly taken: number; readonly waitMs: number }>;
}

const rateScript = readScript("rate");

/**
 * The token bucket of one destination, shared by all processes with the same `prefix` and `name`. `now` is for tests; by
 * default Redis' clock counts.
 */
export function createRedisRate(link: RedisLink, prefix: string, name: string, now?: () => number): RedisRate {
  const key = keysOf(prefix).of(`rate:${name}`);
  return {
    async take({ want, interval, saved }) {
      const list = [now?.() ?? "", want, interval, saved].map(String);
      const [taken, waitMs] = (await link.run((redis) => rateScript.run(redis, key, list))) as [number, number];
      return { taken, waitMs };
    },
  };
}

/** How a call ended. `lost`: it is unknown whether the service counted it; `not-sent`: the service did not count it. */
type SlotEnd = "answered" | "lost" | "not-sent";

/** One step of a process that shares an account's caps; kinds are indexes from 0. See `lua/caps.lua`. */
interface CapsAsk {
  readonly holder: string;
  readonly born: string;
  readonly limits: { readonly requests: number; readonly messages: number; readonly asks: number; readonly polls: number };
  readonly atOnce: { readonly all: number; readonly others: number };
  readonly graceMs: number;
  readonly wants: readonly number[];
  readonly room: { readonly all: number; readonly others: number };
  readonly firstId: number;
  readonly ended: readonly { readonly id: string; readonly kind: number | null; readonly how: SlotEnd; readonly ageMs: number }[];
  readonly renewed: readonly { readonly id: string; readonly kind: number }[];
  readonly version: number;
  readonly next: { readonly state: string; readonly newest: number } | null;
}

interface CapsAnswer {
  readonly born: string;
  readonly now: number;
  readonly granted: readonly { readonly id: string; readonly kind: number; readonly number: number }[];
  readonly waitMs: readonly number[];
  readonly used: { readonly requests: number; readonly messages: number };
  readonly newest: number;
  readonly version: number;
  readonly state: string | null;
  readonly isStored: boolean;
}

interface RedisCaps {
  /** Rejects as the link does: whether it happened is not known then. */
  step(ask: CapsAsk): Promise<CapsAnswer>;
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
      const { granted, ...answer } = JSON.parse(text as string) as CapsAnswer;
      // Lua encodes an empty list as an object.
      return { ...answer, granted: (Array.isArray(granted) ? granted : []).map((slot) => ({ ...slot, kind: slot.kind - 1 })) };
    },
    async read() {
      const [state, steady, wall] = await link.run((redis) => redis.hmget(key, "state", "now", "wall"));
      return state == null ? null : { state, now: Number(steady), wall: Number(wall) };
    },
  };
}
