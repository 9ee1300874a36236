import { keysOf } from "./keys.ts";
import type { RedisLink } from "./link.ts";
import { runPipeline } from "./pipeline.ts";
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
}

const script = readScript("breaker");

/**
 * The breaker of one destination, shared over Redis by all that give the same `prefix` and `name`. `now` is for tests, and
 * the same for all processes; not given, it is Redis's own clock, so that those of the hosts need not agree.
 */
export function createRedisBreaker(link: RedisLink, prefix: string, name: string, now?: () => number): RedisBreaker {
  const key = keysOf(prefix).of(`breaker:${name}`);
  return {
    async step({ holder, verdicts, probeMs, pauseMs, settings }) {
      const { failures, pause, longest } = settings;
      const list = [now?.() ?? "", holder, verdicts, probeMs ?? "", pauseMs ?? "", failures, pause, longest].map(String);
      const answer = (await link.run((redis) => script.run(redis, key, list))) as [BreakerNews["state"], ...(string | number)[]];
      const [state, ...rest] = answer;
      const [failed, openMs, probeLeft, owns, pausedMs] = rest.map(Number) as [number, number, number, number, number];
      return { state, failures: failed, openMs, probeMs: probeLeft, ownsProbe: owns === 1, pausedMs };
    },
  };
}

/**
 * The states of breakers by their names, for who only looks: nothing is told or moved. One that is open and whose time is
 * over is half-open.
 */
export async function readRedisBreakers(
  link: RedisLink,
  prefix: string,
  names: readonly string[],
): Promise<ReadonlyMap<string, BreakerNews["state"]>> {
  if (names.length === 0) return new Map();
  const keys = keysOf(prefix);
  const answers = await runPipeline(link, (commands) => {
    commands.time();
    for (const name of names) commands.hmget(keys.of(`breaker:${name}`), "state", "until");
  });
  const [time = [], ...rows] = answers as (string | null)[][];
  const now = Number(time[0]) * 1000 + Number(time[1]) / 1000;
  return new Map(
    names.map((name, at) => {
      const [state, until] = rows[at] ?? [];
      if (state === "open" && Number(until) <= now) return [name, "half-open"];
      return [name, (state ?? "closed") as BreakerNews["state"]];
    }),
  );
}
