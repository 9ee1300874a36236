import type { RouteBacklog } from "../views.ts";
import { type RedisLink, runMulti, runPipeline } from "./client.ts";
import type { Keys } from "./keys.ts";
import { readStop } from "./read-stories.ts";

/** Claimed deliveries of a route whose time is looked up: the workers have no more of them than they can send soon. */
const mostClaimed = 1_000;

/** Sums of the open and the dead deliveries, from their indexes (`count-stats.ts` counts them all). */
export function createReadBacklog(keys: Keys, link: RedisLink) {
  const { base } = keys;

  /** Unix ms at which the oldest of those that are claimed became due; they are in order of their leases. */
  async function oldestOf(route: string, claimed: readonly string[]): Promise<number | null> {
    if (claimed.length === 0) return null;
    const found = await runPipeline(link, (commands) => {
      for (const member of claimed) commands.hget(keys.delivery(Number(member), route), "n");
    });
    // Settled meanwhile: it is due no more.
    const times = found.flatMap((at) => (at === null ? [] : [Number(at)]));
    return times.length === 0 ? null : Math.min(...times);
  }

  async function of(route: string, stopped: string | null): Promise<RouteBacklog> {
    // In one piece: a delivery goes from list to list.
    const answers = await runMulti(link, (commands) =>
      commands
        .zcard(`${base}due:${route}`)
        .zcard(`${base}leased:${route}`)
        .zcard(`${base}px:${route}`)
        .zcard(`${base}held:${route}`)
        .zcard(`${base}dead:${route}`)
        .zrange(`${base}due:${route}`, "0", "0", "WITHSCORES")
        .zrange(`${base}leased:${route}`, "0", String(mostClaimed - 1)),
    );
    const [due, leased, exchanges, held, dead, first, claimed] = answers as [number, number, number, number, number, string[], string[]];
    const times = [first[1] === undefined ? null : Number(first[1]), await oldestOf(route, claimed)].filter((at) => at !== null);
    return {
      route,
      waiting: due + leased + exchanges,
      held,
      dead,
      oldestDueAt: times.length === 0 ? null : Math.min(...times),
      stopped: stopped === null ? null : readStop(stopped),
    };
  }

  /** Of routes with open or dead deliveries, and of those that are stopped. */
  return async (): Promise<RouteBacklog[]> => {
    const answers = await runPipeline(link, (commands) => commands.smembers(`${base}routes`).hgetall(`${base}stopped`));
    const [routes, stopped] = answers as [string[], Record<string, string>];
    const names = new Set([...routes, ...Object.keys(stopped)]);
    const found = await Promise.all([...names].map((route) => of(route, stopped[route] ?? null)));
    return found.filter((entry) => entry.waiting + entry.held + entry.dead > 0 || entry.stopped !== null);
  };
}
