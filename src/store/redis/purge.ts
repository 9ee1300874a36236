import type { RetentionTimes, Swept } from "../port.ts";
import type { RedisLink } from "./client.ts";
import type { Operation } from "./commit.ts";
import { type EventRow, readEventRow } from "./event-rows.ts";
import type { Keys } from "./keys.ts";
import { createPurgeSubjects } from "./purge-subjects.ts";
import { joinRetention, type RetentionRow, readRetentionRow, retentionRowName, rowJson, rowVersion } from "./rows.ts";
import type { LiveSeqs, StoredEvents } from "./stored-events.ts";
import type { Transact } from "./transact.ts";

/** Rows per step; each step blocks Redis for a millisecond or two. */
const mostAtOnce = 50;

/**
 * Deletes rows past their retention, a few per step. Open deliveries, and the events and messages they need, stay
 * whatever their age. Progress is stored in Redis; each process keeps the phase of its own pass.
 */
export function createPurge(parts: PurgeParts) {
  const ofEvents = createPurgeEvents(parts);
  const ofSubjects = createPurgeSubjects(parts);
  const phases = [ofEvents.ignored, ofEvents.deliveries, ofEvents.events, ofEvents.kept, ofSubjects.seen, ofSubjects.registered] as const;
  let phase = 0;

  /** One phase of a pass, or a part of it: looks at up to `limit` rows. */
  return async function sweep(now: number, keep: RetentionTimes, limit: number): Promise<Swept> {
    const sum = { events: 0, deliveries: 0, messages: 0 };
    for (let left = limit; left > 0; left -= mostAtOnce) {
      const { more, ...taken } = await (phases[phase] ?? ofEvents.ignored)(now, keep, Math.min(left, mostAtOnce));
      if ("events" in taken) {
        sum.events += taken.events;
        sum.deliveries += taken.deliveries;
      } else sum.messages += taken.messages;
      if (more) continue;
      phase = (phase + 1) % phases.length;
      return { ...sum, done: phase === 0 };
    }
    return { ...sum, done: false };
  };
}

interface PurgeParts {
  readonly keys: Keys;
  readonly link: RedisLink;
  readonly transact: Transact;
  readonly live: Pick<LiveSeqs, "after" | "last">;
  readonly events: Pick<StoredEvents, "verdicts">;
}

interface PurgedEvents {
  readonly events: number;
  readonly deliveries: number;
  /** False when nothing of this kind is left to delete. */
  readonly more: boolean;
}

interface Versioned extends EventRow {
  readonly seq: number;
  readonly version: string;
}

/** Events that were deleted only in part are checked again after this at the latest: the settings may have changed. */
const latestLookMs = 86_400_000;

/**
 * Deletes old events and deliveries by the operation `sweep` of lua/retention.lua, which checks again what may have
 * changed: any number of processes may run this at once. Each event is visited when its deliveries are old and when it
 * is itself; events of which something is left then are listed in `kept`.
 */
function createPurgeEvents({ keys, link, transact, live, events }: PurgeParts) {
  const rowKey = keys.of(retentionRowName);

  async function rowsOf(seqs: readonly number[]): Promise<Versioned[]> {
    if (seqs.length === 0) return [];
    const found = await link.run((redis) => redis.mget(seqs.map(keys.event)));
    return found.flatMap((text, index) =>
      text === null ? [] : [{ seq: seqs[index] as number, version: rowVersion(text), ...readEventRow(rowJson(text)) }],
    );
  }

  /** Deletes what is old of `rows`, and stores the progress in the same step. */
  async function take(rows: readonly Versioned[], now: number, keep: RetentionTimes, place: Place): Promise<Omit<PurgedEvents, "more">> {
    const last = await live.last();
    const verdicts = await events.verdicts(rows);
    const sum = { events: 0, deliveries: 0 };
    await transact(async (tx) => {
      const progress = readRetentionRow(await tx.read(rowKey));
      const news: { -readonly [name in keyof RetentionRow]?: RetentionRow[name] } = { ...place.moved };
      for (const [index, row] of rows.entries()) {
        // A worker may plan it at any moment. It is checked again as if it had been planned now.
        if (row.disposition === "accepted") {
          const next = Math.min(now + latestLookMs, now + keep.deliveries + 1);
          tx.call("ZADD", keys.of("kept"), String(next), String(row.seq));
          continue;
        }
        const isOld = row.seq < last && row.receivedAt < now - place.age;
        const routes = (verdicts[index] ?? []).flatMap(([route, verdict]) => (verdict === "deliver" ? [route] : []));
        // The event with the greatest seq always stays. Others without deliveries are visited again when they are old.
        const isPassed = row.seq <= Math.max(progress.eventsTo, place.moved.eventsTo ?? 0);
        const alone = isPassed ? String(Math.min(now + latestLookMs, row.receivedAt + keep.events + 1)) : "";
        if (isOld) news.sweptEvents = now - place.age;
        if (routes.length > 0) news.sweptDeliveries = now - keep.deliveries;
        tx.operate(purgeOf(row, { now, keep, isOld, alone, routes }), (result) => {
          const [gone, settled] = result as [number, number];
          sum.events += gone;
          sum.deliveries += settled;
        });
      }
      const joined = joinRetention(progress, news);
      if (JSON.stringify(joined) !== JSON.stringify(progress)) tx.put(rowKey, JSON.stringify(joined));
    });
    return sum;
  }

  /** Continues in the order of acceptance, up to the first event younger than `age`. */
  async function walk(name: "deliveriesTo" | "eventsTo", now: number, keep: RetentionTimes, limit: number): Promise<PurgedEvents> {
    const stored = await link.run((redis) => redis.get(rowKey));
    const from = readRetentionRow(stored === null ? null : rowJson(stored))[name];
    const age = name === "eventsTo" ? keep.events : keep.deliveries;
    const seqs = await live.after(from, limit);
    const rows = await rowsOf(seqs);
    const last = name === "eventsTo" ? await live.last() : Number.POSITIVE_INFINITY;
    const young = rows.findIndex((row) => row.receivedAt >= now - age || row.seq >= last);
    const old = young < 0 ? rows : rows.slice(0, young);
    const end = young < 0 ? seqs.at(-1) : old.at(-1)?.seq;
    if (end === undefined) return { events: 0, deliveries: 0, more: false };
    const taken = await take(old, now, keep, { age: keep.events, moved: { [name]: end } });
    return { ...taken, more: young < 0 && seqs.length === limit };
  }

  /** Members of a list that are due. */
  async function listed(list: string, until: string, limit: number): Promise<number[]> {
    return (await link.run((redis) => redis.zrangebyscore(keys.of(list), "-inf", until, "LIMIT", 0, limit))).map(Number);
  }

  return {
    async ignored(now: number, keep: RetentionTimes, limit: number): Promise<PurgedEvents> {
      const last = await live.last();
      // The event with the greatest seq stays, wherever it is in the list.
      const seqs = await listed("ignored", `(${now - keep.ignored}`, limit + 1);
      const rows = await rowsOf(seqs.filter((seq) => seq < last).slice(0, limit));
      const taken = await take(rows, now, keep, { age: keep.ignored, moved: {} });
      return { ...taken, more: seqs.length > limit && taken.events > 0 };
    },
    /** Deliveries may be kept for less time than their events. */
    deliveries: (now: number, keep: RetentionTimes, limit: number): Promise<PurgedEvents> =>
      keep.deliveries < keep.events ? walk("deliveriesTo", now, keep, limit) : Promise.resolve({ events: 0, deliveries: 0, more: false }),
    events: (now: number, keep: RetentionTimes, limit: number): Promise<PurgedEvents> => walk("eventsTo", now, keep, limit),
    /** Events that were deleted only in part. */
    async kept(now: number, keep: RetentionTimes, limit: number): Promise<PurgedEvents> {
      const seqs = await listed("kept", String(now), limit);
      const rows = await rowsOf(seqs);
      const found = new Set(rows.map(({ seq }) => seq));
      const gone = seqs.filter((seq) => !found.has(seq));
      if (gone.length > 0) await link.run((redis) => redis.zrem(keys.of("kept"), ...gone.map(String)));
      const taken = await take(rows, now, keep, { age: keep.events, moved: {} });
      return { ...taken, more: seqs.length === limit };
    },
  };
}

interface Place {
  /** How long events of this kind are kept, in ms. */
  readonly age: number;
  readonly moved: Partial<Pick<RetentionRow, "deliveriesTo" | "eventsTo">>;
}

interface Look {
  readonly now: number;
  readonly keep: RetentionTimes;
  readonly isOld: boolean;
  readonly alone: string;
  readonly routes: readonly string[];
}

function purgeOf(row: Versioned, { now, keep, isOld, alone, routes }: Look): Operation {
  const { seq, version, account, id, subject } = row;
  const times = [String(keep.deliveries), String(now), String(now + latestLookMs), alone];
  const before = String(now - keep.deliveries);
  const lists = listsOf(row);
  const names = [id === null ? "" : `${account}:${id}`, subject ?? "", String(lists.length), ...lists];
  return ["sweep", String(seq), version, before, isOld ? "1" : "", ...times, ...names, ...routes];
}

/** Lists that name the event, besides those that have every event. */
function listsOf({ disposition, origin, account, subject, parkedUntil }: Versioned): string[] {
  return [
    "kept",
    ...(disposition === "ignored" || disposition === "quarantined" ? [disposition] : []),
    ...(origin === "webhook" ? [] : [`learned:${account}`]),
    // It may have been truncated, and no longer waits.
    ...(subject === null ? [`hw:${account}`, `hc:${account}`] : []),
    ...(parkedUntil === null ? [] : ["parked", ...(subject === null ? [] : [`pk:${subject}`])]),
  ];
}
