import { setImmediate as nextTurn } from "node:timers/promises";
import { type DeliveryState, deliveryStates } from "../../model/delivery.ts";
import { type Disposition, dispositions } from "../../model/plan.ts";
import type { Stats } from "../reading.ts";
import type { QuarantineCount, RouteBacklog, StoredSecretUse } from "../views.ts";
import { type RedisLink, runMulti, runPipeline } from "./client.ts";
import { type StoredEvent, stateCode, stateOf } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import type { StoredParts } from "./live-seqs.ts";
import { readStop } from "./read-stories.ts";
import { readScript } from "./script.ts";

const failedScript = readScript("failed-attempts");

/** Events per step: about a millisecond of this process, and less of Redis. */
const sliceEvents = 200;
/** Attempts per run of the script; each may hold 4 KiB. */
const mostAttempts = 200;

interface Counted {
  readonly event: number;
  readonly route: string;
  readonly state: string;
  readonly made: number;
}

/** Counts every row in small steps, so that neither Redis nor this process is blocked. */
export function createCountStats({ keys, link, live, events }: StoredParts) {
  async function deliveriesOf(rows: readonly StoredEvent[]): Promise<Counted[]> {
    const plans = await events.verdicts(rows);
    const planned = rows.flatMap(({ seq }, index) =>
      (plans[index] ?? []).flatMap(([route, verdict]) => (verdict === "deliver" ? [{ event: seq, route }] : [])),
    );
    if (planned.length === 0) return [];
    const answers = await runPipeline(link, (commands) => {
      for (const { event, route } of planned) commands.hmget(keys.delivery(event, route), "s", "a");
    });
    return answers.flatMap((fields, index) => {
      const [state, made] = fields as [string | null, string | null];
      return state === null ? [] : [{ ...(planned[index] as (typeof planned)[number]), state, made: Number(made ?? 0) }];
    });
  }

  async function failedOf(counted: readonly Counted[]): Promise<number> {
    let failed = 0;
    let list: string[] = [];
    let attempts = 0;
    const flush = async (): Promise<void> => {
      if (list.length === 0) return;
      const found = (await link.run((redis) => failedScript.run(redis, `${keys.base}seq`, [keys.base, ...list]))) as number[];
      failed += found.reduce((sum, one) => sum + one, 0);
      list = [];
      attempts = 0;
    };
    for (const { event, route, state, made } of counted) {
      // Delivered at the first attempt, as most are: nothing failed.
      if (made === 0 || (made === 1 && state === stateCode("delivered"))) continue;
      if (attempts + made > mostAttempts) await flush();
      list.push(String(event), route, String(made));
      attempts += made;
    }
    await flush();
    return failed;
  }

  async function duplicatesOf(rows: readonly StoredEvent[]): Promise<number> {
    if (rows.length === 0) return 0;
    const found = await link.run((redis) => redis.hmget(`${keys.base}dups`, ...rows.map(({ seq }) => String(seq))));
    return found.reduce((sum, one) => sum + Number(one ?? 0), 0);
  }

  return async function countStats(): Promise<Stats> {
    const byDisposition = Object.fromEntries(dispositions.map((word) => [word, 0])) as Record<Disposition, number>;
    const byState = Object.fromEntries(deliveryStates.map((word) => [word, 0])) as Record<DeliveryState, number>;
    const sum = { duplicates: 0, made: 0, failed: 0 };
    for await (const seqs of live.forth(0, Number.MAX_SAFE_INTEGER, sliceEvents)) {
      const rows = await events.rows(seqs);
      for (const { disposition } of rows) byDisposition[disposition] += 1;
      sum.duplicates += await duplicatesOf(rows);
      const counted = await deliveriesOf(rows);
      for (const { state, made } of counted) {
        byState[stateOf(state)] += 1;
        sum.made += made;
      }
      sum.failed += await failedOf(counted);
      await nextTurn();
    }
    return {
      dispositions: byDisposition,
      duplicates: sum.duplicates,
      deliveries: byState,
      attempts: { made: sum.made, failed: sum.failed },
    };
  };
}

/** Claimed deliveries of a route whose due time is read; workers claim only what they can send soon. */
const mostClaimed = 1_000;

/** Open and dead deliveries per route, from their indexes. */
export function createReadBacklog(keys: Keys, link: RedisLink) {
  const { base } = keys;

  /** When the oldest claimed delivery became due, unix ms; the list is in the order of leases. */
  async function oldestOf(route: string, claimed: readonly string[]): Promise<number | null> {
    if (claimed.length === 0) return null;
    const found = await runPipeline(link, (commands) => {
      for (const member of claimed) commands.hget(keys.delivery(Number(member), route), "n");
    });
    // A missing time: settled meanwhile.
    const times = found.flatMap((at) => (at === null ? [] : [Number(at)]));
    return times.length === 0 ? null : Math.min(...times);
  }

  async function of(route: string, stopped: string | null): Promise<RouteBacklog> {
    const stop = stopped === null ? null : readStop(stopped);
    // Atomic: deliveries move between these lists.
    const answers = await runMulti(link, (commands) =>
      commands
        .zcard(`${base}due:${route}`)
        .zcard(`${base}leased:${route}`)
        .zcard(`${base}px:${route}`)
        .zcard(`${base}held:${route}`)
        .zcard(`${base}dead:${route}`)
        .zrange(`${base}due:${route}`, "0", "0", "WITHSCORES")
        .zrange(`${base}leased:${route}`, "0", String(mostClaimed - 1))
        .zrange(`${base}dead:${route}`, "0", "0"),
    );
    const [due, leased, exchanges, held, dead] = answers as [number, number, number, number, number];
    const [first, claimed, firstDead] = answers.slice(5) as [string[], string[], string[]];
    const [oldestDead] = firstDead;
    const diedAt = oldestDead === undefined ? null : await link.run((redis) => redis.hget(keys.delivery(Number(oldestDead), route), "t"));
    const times = [first[1] === undefined ? null : Number(first[1]), await oldestOf(route, claimed)].filter((at) => at !== null);
    return {
      route,
      waiting: due + leased + exchanges,
      held,
      dead,
      oldestDueAt: times.length === 0 ? null : Math.min(...times),
      deadSince: diedAt === null ? null : Number(diedAt),
      stopped: stop?.reason ?? null,
      stoppedAt: stop?.at ?? null,
    };
  }

  /** Routes with open or dead deliveries, and stopped routes. */
  return async (): Promise<RouteBacklog[]> => {
    const answers = await runPipeline(link, (commands) => commands.smembers(`${base}routes`).hgetall(`${base}stopped`));
    const [routes, stopped] = answers as [string[], Record<string, string>];
    const names = new Set([...routes, ...Object.keys(stopped)]);
    const found = await Promise.all([...names].map((route) => of(route, stopped[route] ?? null)));
    return found.filter((entry) => entry.waiting + entry.held + entry.dead > 0 || entry.stopped !== null);
  };
}

/** Quarantined bodies that were not released. */
export function createReadQuarantine(keys: Keys, link: RedisLink) {
  const list = `${keys.base}quarantined`;
  return async (): Promise<QuarantineCount> => {
    const answers = await runMulti(link, (commands) => commands.zcard(list).zrange(list, "0", "0", "WITHSCORES"));
    const [events, first] = answers as [number, string[]];
    return { events, oldestAt: first[1] === undefined ? null : Number(first[1]) };
  };
}

type Sums = { -readonly [Name in "events" | "duplicates" | "firstAt" | "lastAt"]: number };

const words = new Map<string, keyof Sums>([
  ["events", "events"],
  ["duplicates", "duplicates"],
  ["first", "firstAt"],
  ["last", "lastAt"],
]);

/** Usage of each secret of each source, ordered by source and secret. */
export function createReadUsage(keys: Keys, link: RedisLink) {
  return async (): Promise<StoredSecretUse[]> => {
    const found = await link.run((redis) => redis.hgetall(`${keys.base}usage`));
    const sums = new Map<string, { source: string; secret: string } & Sums>();
    for (const [field, value] of Object.entries(found)) {
      const end = field.lastIndexOf(":");
      const secretUse = field.slice(0, end);
      const start = secretUse.lastIndexOf(":");
      const word = words.get(field.slice(end + 1));
      if (word === undefined) continue;
      const sum = sums.get(secretUse) ?? {
        source: secretUse.slice(0, start),
        secret: secretUse.slice(start + 1),
        events: 0,
        duplicates: 0,
        firstAt: 0,
        lastAt: 0,
      };
      sum[word] = Number(value);
      sums.set(secretUse, sum);
    }
    return [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, sum]) => sum);
  };
}
