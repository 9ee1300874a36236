import type { RedisLink } from "../client.ts";
import { readEventRow } from "../event-rows.ts";
import type { Keys } from "../keys.ts";
import { readHydrationRow, rowJson } from "../rows.ts";
import { rowsAtOnce, type StoredEvent, type StoredEvents } from "../stored-events.ts";
import type { Looked } from "./judge.ts";
import { type LookedDelivery, lookAtDeliveries } from "./looked-delivery.ts";
import { plannedPlaces, waitingAmong } from "./unplanned.ts";

export interface SlicesParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly events: Pick<StoredEvents, "verdicts">;
}

/** An event that changes at every look is being worked on all the time; the last look counts then. */
const mostLooks = 20;

/** Reads events with all that hangs on them, each as it is at one moment. */
export function createSlices({ keys, link, events }: SlicesParts) {
  async function texts(seqs: readonly number[]): Promise<(string | null)[]> {
    return seqs.length === 0 ? [] : link.run((redis) => redis.mget(seqs.map(keys.event)));
  }

  async function look(seqs: readonly number[], rowsBefore: readonly (string | null)[], routes: readonly string[]): Promise<Looked[]> {
    const rows = seqs.flatMap((seq, index): StoredEvent[] => {
      const text = rowsBefore[index] ?? null;
      return text === null ? [] : [{ seq, ...readEventRow(rowJson(text)) }];
    });
    if (rows.length === 0) return [];
    const verdicts = await events.verdicts(rows);
    const asked = rows.flatMap(({ seq }) => routes.map((route) => ({ event: seq, route })));
    const deliveries = Map.groupBy(await lookAtDeliveries(link, keys.base, asked), ({ event }) => event);
    const fields = rows.map(({ seq }) => String(seq));
    const [duplicates, conflicts, ids, hydrations, waiting, places] = await Promise.all([
      link.run((redis) => redis.hmget(keys.of("dups"), ...fields)),
      link.run((redis) => redis.hmget(keys.of("conflicts"), ...fields)),
      link.run((redis) => redis.mget(rows.map(({ account, id }) => keys.of(`id:${account}:${id ?? ""}`)))),
      link.run((redis) => redis.mget(rows.map(({ seq }) => keys.of(`h:${seq}`)))),
      waitingAmong(
        { keys, link },
        rows.map(({ seq }) => seq),
      ),
      plannedPlaces({ keys, link }, rows),
    ]);
    const none: readonly LookedDelivery[] = [];
    return rows.map((row, index) => {
      const hydration = hydrations[index] ?? null;
      return {
        row,
        verdicts: row.plan === null ? null : (verdicts[index] ?? []),
        deliveries: deliveries.get(row.seq) ?? none,
        isWaiting: waiting.has(row.seq),
        plannedPlaces: places.get(row.seq) ?? [],
        isHydrating: hydration !== null && readHydrationRow(rowJson(hydration)).state === "waiting",
        idLeadsTo: ids[index] === null ? null : Number(ids[index]),
        duplicates: Number(duplicates[index] ?? 0),
        conflicts: Number(conflicts[index] ?? 0),
      };
    });
  }

  /** Of at most `rowsAtOnce` seqs those that are there. What changed under the look is looked at again. */
  return async function read(seqs: readonly number[]): Promise<Looked[]> {
    const routes = await link.run((redis) => redis.smembers(keys.of("routes")));
    const found = new Map<number, Looked>();
    let left = seqs.slice(0, rowsAtOnce);
    for (let looks = 0; left.length > 0; looks += 1) {
      const before = await texts(left);
      const looked = await look(left, before, routes);
      const after = await texts(left);
      const isSame = new Map(left.map((seq, index) => [seq, before[index] === after[index]]));
      for (const one of looked) if (isSame.get(one.row.seq) === true || looks >= mostLooks) found.set(one.row.seq, one);
      left = looks >= mostLooks ? [] : left.filter((seq) => isSame.get(seq) === false);
    }
    return seqs.flatMap((seq) => found.get(seq) ?? []);
  };
}
