import { breakerName } from "../deliver/settings.ts";
import type { BreakerView } from "../model/shared-limits.ts";
import type { RedisLink } from "../store/redis/client.ts";
import { readRedisBreakers } from "../store/redis/shared-limits.ts";
import type { BreakersOf } from "./open-store.ts";

/** The breakers that lanes share, for who only looks. */
export function sharedBreakers(link: RedisLink, prefix: string): BreakersOf {
  const closed: BreakerView = { state: "closed", pausedUntil: null };
  return async (routes) => {
    const named = routes.map((route) => ({ route: route.name, breaker: breakerName(route) }));
    const states = await readRedisBreakers(
      link,
      prefix,
      named.map(({ breaker }) => breaker),
    );
    return new Map(named.map(({ route, breaker }) => [route, states.get(breaker) ?? closed]));
  };
}
