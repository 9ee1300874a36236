import { createHash } from "node:crypto";
import { type RedisLink, runPipeline } from "./client.ts";
import { keysOf } from "./keys.ts";
import { readScript } from "./script.ts";

/** What one process tells of a destination and asks; see `lua/breaker.lua`. Times are milliseconds from now. */
interface BreakerAsk {
  readonly holder: string;
  /** What came of attempts, in their order: `s` success, `f` failure, `n` neither. */
  readonly verdicts: string;
  /** How long the probe may be out, when it is asked for. */
  readonly probeMs: number | null;
  /** The destination asked not to be called for so long. */
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
  /** An operator ends the pause for all; true when there was one. */
  endPause(settings: BreakerAsk["settings"]): Promise<boolean>;
}

const breakerScript = readScript("breaker");

/**
 * The breaker of one destination, shared over Redis by all that give the same `prefix` and `name`. `now` is for tests, and
 * the same for all processes; not given, it is Redis's own clock, so that those of the hosts need not agree.
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
 * The states of breakers by their names, for who only looks: nothing is told or moved. One that is open and whose time is
 * over is half-open. `pausedUntil` is unix milliseconds by Redis's clock; null when it does not pause.
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

/** All in milliseconds, but the tokens. */
interface RateAsk {
  readonly want: number;
  readonly interval: number;
  /** Worth of how much time may be saved up. */
  readonly saved: number;
}

interface RedisRate {
  /** Gives the tokens taken, and the time until there is another. Rejects as the link does: whether they were taken is not known then. */
  take(ask: RateAsk): Promise<{ readonly taken: number; readonly waitMs: number }>;
}

const rateScript = readScript("rate");

/**
 * The rate of one destination, shared over Redis by all that give the same `prefix` and `name`. `now` is for tests, and the
 * same for all processes; not given, it is Redis's own clock, so that those of the hosts need not agree.
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

/** How a call ended. `lost`: nobody knows whether and when the service counted it; `not-sent`: it surely did not. */
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
  /** What was learned last, and the shared clock of then beside the time; null: nothing. Writes nothing. */
  read(): Promise<{ readonly state: string; readonly now: number; readonly wall: number } | null>;
}

const capsScript = readScript("caps");

/**
 * The caps of an account, shared over Redis by all that give the same `prefix`, `account` and `baseUrl`: another base URL is
 * another account at the service. `now` is for tests, and the same for all processes; not given, it is Redis's own clock,
 * so that those of the hosts need not agree.
 */
export function createRedisCaps(link: RedisLink, prefix: string, account: string, baseUrl: string, now?: () => number): RedisCaps {
  const place = createHash("sha256").update(baseUrl).digest("hex").slice(0, 8);
  const key = keysOf(prefix).of(`caps:${account}:${place}`);
  return {
    async step({ wants, ended, renewed, next, ...ask }) {
      // An absent field, because Lua has no null; kinds from 1, as lists count there.
      const request = {
        ...ask,
        wants,
        ended: ended.map(({ kind, ...one }) => ({ ...one, ...(kind === null ? {} : { kind: kind + 1 }) })),
        renewed: renewed.map(({ id, kind }) => ({ id, kind: kind + 1 })),
        ...(next === null ? {} : { next }),
      };
      const text = await link.run((redis) => capsScript.run(redis, key, [JSON.stringify(request), now === undefined ? "" : String(now())]));
      const { granted, ...answer } = JSON.parse(text as string) as CapsAnswer;
      // An empty list of Lua is written as an empty object.
      return { ...answer, granted: (Array.isArray(granted) ? granted : []).map((slot) => ({ ...slot, kind: slot.kind - 1 })) };
    },
    async read() {
      const [state, steady, wall] = await link.run((redis) => redis.hmget(key, "state", "now", "wall"));
      return state == null ? null : { state, now: Number(steady), wall: Number(wall) };
    },
  };
}
