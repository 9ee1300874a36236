import { createHash } from "node:crypto";
import type { ReplayCursor, ReplayFilter, ReplayFound } from "../port.ts";
import { type RedisLink, runPipeline } from "./client.ts";
import { type EventRow, stateOf } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import type { LiveSeqs, StoredEvents } from "./stored-events.ts";

interface Parts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly live: Pick<LiveSeqs, "after">;
  readonly events: Pick<StoredEvents, "rows" | "verdicts">;
}

type Place = ReplayFound["found"][number];

/** A route's place in a walk over routes: it says nothing, but stays the same whatever other routes there are. */
const routeNumber = (route: string): number => createHash("sha256").update(route).digest().readUIntBE(0, 6) + 1;

/**
 * One pass over the settled deliveries, `limit` events or dead deliveries looked at in each call, whether they match or
 * not. The pass only goes forward, so that a delivery that settles again meanwhile is not met twice. The dead are met
 * route by route, everything else in the order of acceptance.
 */
export function createReplayWalk({ keys, link, live, events }: Parts) {
  /** Those of `places` that are settled as the filter means, in their order. */
  async function settled(places: readonly Place[], filter: ReplayFilter, { since }: ReplayCursor, now: number): Promise<Place[]> {
    if (places.length === 0) return [];
    const found = (await runPipeline(link, (commands) => {
      for (const { event, route } of places) commands.hmget(keys.delivery(event, route), "s", "t");
    })) as [state: string | null, settledAt: string | null][];
    return places.filter((_, index) => {
      const [state, settledAt] = found[index] ?? [null, null];
      if (state === null || settledAt === null || !filter.states.some((wanted) => wanted === stateOf(state))) return false;
      // A time that is still to come was written under a wrong clock, not during this walk.
      return Number(settledAt) <= since || Number(settledAt) > now;
    });
  }

  async function dead(filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): Promise<ReplayFound> {
    const known = filter.route === undefined ? await link.run((redis) => redis.smembers(`${keys.base}routes`)) : [filter.route];
    const routes = known.map((route) => ({ route, number: routeNumber(route) })).sort((a, b) => a.number - b.number);
    const places: Place[] = [];
    let next: ReplayCursor | null = null;
    for (const { route, number } of routes) {
      if (number < cursor.route) continue;
      const after = number === cursor.route ? cursor.event : 0;
      const most = limit - places.length;
      const seqs = await link.run((redis) => redis.zrangebyscore(`${keys.base}dead:${route}`, `(${after}`, "+inf", "LIMIT", 0, most));
      places.push(...seqs.map((seq) => ({ event: Number(seq), route })));
      if (seqs.length < most) continue;
      next = { since: cursor.since, event: Number(seqs.at(-1) ?? after), route: number };
      break;
    }
    const rows = isOfEvents(filter) ? await events.rows([...new Set(places.map(({ event }) => event))]) : null;
    const meant = rows === null ? null : new Set(rows.filter((row) => isMeant(filter, row)).map(({ seq }) => seq));
    const wanted = places.filter(({ event }) => meant === null || meant.has(event));
    return { found: await settled(wanted, filter, cursor, now), cursor: next };
  }

  async function all(filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): Promise<ReplayFound> {
    const seqs = await live.after(cursor.event, limit);
    const rows = (await events.rows(seqs)).filter((row) => isMeant(filter, row));
    const verdicts = await events.verdicts(rows);
    const places = rows.flatMap(({ seq }, index) =>
      (verdicts[index] ?? [])
        .filter(([route, verdict]) => verdict === "deliver" && (filter.route === undefined || filter.route === route))
        .map(([route]) => ({ event: seq, route })),
    );
    const last = seqs.at(-1);
    return {
      found: await settled(places, filter, cursor, now),
      cursor: last === undefined || seqs.length < limit ? null : { since: cursor.since, event: last, route: 0 },
    };
  }

  return (filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): Promise<ReplayFound> =>
    filter.states.every((state) => state === "dead") ? dead(filter, cursor, now, limit) : all(filter, cursor, now, limit);
}

interface OfEvents {
  readonly errorCode?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

const isOfEvents = ({ errorCode, from, to }: OfEvents): boolean => errorCode !== undefined || from !== undefined || to !== undefined;

/** The part of a filter that is about the event. */
export function isMeant({ errorCode, from, to }: OfEvents, row: Pick<EventRow, "errorCode" | "receivedAt">): boolean {
  if (errorCode !== undefined && row.errorCode !== errorCode) return false;
  return (from === undefined || row.receivedAt >= from) && (to === undefined || row.receivedAt < to);
}
