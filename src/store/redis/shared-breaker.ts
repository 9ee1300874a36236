import { type RedisLink, runPipeline } from "./client.ts";
import { keysOf } from "./keys.ts";
import { readScript } from "./script.ts";

/** What one process tells of a destination and asks; see `lua/breaker.lua`. Times are milliseconds from now. */
export interface BreakerAsk {
  readonly holder: string;
  /** What came of attempts, in their order: `s` success, `f` failure, `n` neither. */
  readonly verdicts: string;
  /** How long the probe may be out, when it is asked for. */
  readonly probeMs: number | null;
  /** The destination asked not to be called for so long. */
  readonly pauseMs: number | null;
  readonly settings: { readonly failures: number; readonly pause: number; readonly longest: number };
}

export interface BreakerNews {
  readonly state: "closed" | "open" | "half-open";
  readonly failures: number;
  readonly openMs: number;
  readonly probeMs: number;
  readonly ownsProbe: boolean;
  readonly pausedMs: number;
}

export interface RedisBreaker {
  /** Rejects as the link does: whether it happened is not known then. */
  step(ask: BreakerAsk): Promise<BreakerNews>;
  /** An operator ends the pause for all; true when there was one. */
  endPause(settings: BreakerAsk["settings"]): Promise<boolean>;
}

const script = readScript("breaker");

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
    const answer = (await link.run((redis) => script.run(redis, key, list))) as [BreakerNews["state"], ...(string | number)[]];
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
