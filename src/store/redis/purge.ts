import type { Purged, RetentionTimes } from "../port.ts";
import type { Operation } from "./commit.ts";
import { type EventRow, readEventRow } from "./event-rows.ts";
import { placesOfEvent, placesOfSubject, readSubjectName, type SubjectName } from "./keys.ts";
import { createRollUp } from "./read-history.ts";
import {
  joinRetention,
  type RetentionRow,
  readRetentionRow,
  readSubjectRow,
  retentionRowName,
  rowJson,
  rowVersion,
  type StoredSubject,
} from "./rows.ts";
import { indexesOf, indexSubject } from "./subjects.ts";
import type { Transaction, WriteParts } from "./transact.ts";

/** Rows per step; each step blocks Redis for a millisecond or two. */
const mostAtOnce = 50;

/**
 * Deletes rows past their retention, a few per step. Open deliveries, and the events and messages they need, stay
 * whatever their age. Progress is stored in Redis; each process keeps the phase of its own pass.
 */
export function createPurge(parts: Omit<WriteParts, "rules">) {
  const ofEvents = createPurgeEvents(parts);
  const ofSubjects = createPurgeSubjects(parts);
  const rollUp = createRollUp(parts.keys, parts.link);
  const ofHistory = async (now: number, keep: RetentionTimes) => ({ messages: 0, ...(await rollUp(now, keep.history)) });
  const phases = [
    ofHistory,
    ofEvents.ignored,
    ofEvents.deliveries,
    ofEvents.events,
    ofEvents.kept,
    ofSubjects.seen,
    ofSubjects.registered,
  ] as const;
  let phase = 0;

  /** One phase of a pass, or a part of it: reads up to `limit` rows. */
  return async function purge(now: number, keep: RetentionTimes, limit: number): Promise<Purged> {
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

/** Rows that were deleted only in part, and subjects that were only seen, are checked again after this at the latest: the settings may have changed. */
const latestLookMs = 86_400_000;

/**
 * Deletes old events and deliveries by the operation `purge_event` of lua/purge.lua, which checks again what may have
 * changed: any number of processes may run this at once. Each event is visited when its deliveries are old and when it
 * is itself; events of which something is left then are listed in `kept`.
 */
function createPurgeEvents({ keys, link, transact, live, events }: Omit<WriteParts, "rules">) {
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
      const update: { -readonly [name in keyof RetentionRow]?: RetentionRow[name] } = { ...place.moved };
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
        if (isOld) update.sweptEvents = now - place.age;
        if (routes.length > 0) update.sweptDeliveries = now - keep.deliveries;
        tx.operate(purgeOf(row, { now, keep, isOld, alone, routes }), (result) => {
          const [gone, settled] = result as [number, number];
          sum.events += gone;
          sum.deliveries += settled;
        });
      }
      const joined = joinRetention(progress, update);
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
  return ["purge_event", String(seq), version, before, isOld ? "1" : "", ...times, ...names, ...routes];
}

/** Lists that name the event, besides those that have every event. */
function listsOf({ id, disposition, origin, account, subject, parkedUntil }: Versioned): string[] {
  return [
    "kept",
    ...placesOfEvent(id),
    ...(disposition === "ignored" || disposition === "quarantined" ? [disposition] : []),
    ...(origin === "webhook" ? [] : [`made:${account}`]),
    // It may have been truncated, and no longer waits.
    ...(subject === null ? [`hw:${account}`, `hc:${account}`] : []),
    ...(parkedUntil === null ? [] : ["parked", ...(subject === null ? [] : [`pk:${subject}`])]),
  ];
}

interface PurgedSubjects {
  readonly messages: number;
  /** False when nothing is left to delete. */
  readonly more: boolean;
}

interface Found {
  readonly name: SubjectName;
  readonly version: string;
  readonly row: StoredSubject;
}

/** Walks over the registered subjects within their retention time, which sets how exact it is. */
const walksInTime = 100;

/**
 * Deletes messages and runs: registered ones after `messages`, those only seen after `ignored`, but none before its last
 * event, because a late event could then move a status backwards. The purge of events lists seen subjects without events
 * in `bare`; registered subjects are walked over at intervals.
 */
function createPurgeSubjects({ keys, link, transact }: Omit<WriteParts, "rules">) {
  const { base } = keys;
  const rowKey = keys.of(retentionRowName);
  /** Position of this process' walk; null: none is running. */
  let walk: { readonly since: number; readonly kind: "m" | "r"; readonly after: number } | null = null;

  async function rowsOf(names: readonly SubjectName[]): Promise<Found[]> {
    if (names.length === 0) return [];
    const found = await link.run((redis) => redis.mget(names.map(keys.of)));
    return found.flatMap((text, index) =>
      text === null ? [] : [{ name: names[index] as string, version: rowVersion(text), row: readSubjectRow(rowJson(text)) }],
    );
  }

  function forgetOf({ name, version, row }: Found): Operation {
    const kind = readSubjectName(name).type === "message" ? "m" : "r";
    const released = row.releasedTo === null ? [] : ["ZREM", `${base}releasing`, name];
    const own = `${base}${row.registeredAt === null ? "seen" : "registered"}:${kind}`;
    const ofNumber = placesOfSubject(name);
    const lists = row.registeredAt === null ? [] : indexesOf(base, kind, row);
    const places = indexSubject(base, name, row, null).flatMap(([, ...command]) => command);
    const first = ["purge_subject", name, version, own, String(ofNumber.length), ...ofNumber] as const;
    return [...first, ...lists.flatMap((list) => ["ZREM", list, name]), ...released, ...places];
  }

  async function forget(found: readonly Found[], beside?: (tx: Transaction) => void): Promise<number> {
    let forgotten = 0;
    await transact((tx) => {
      beside?.(tx);
      for (const one of found) {
        tx.operate(forgetOf(one), (result) => {
          forgotten += Number(result);
        });
      }
    });
    return forgotten;
  }

  async function isWalkDue(now: number, keep: RetentionTimes): Promise<boolean> {
    const stored = await link.run((redis) => redis.get(rowKey));
    const { walkedAt } = readRetentionRow(stored === null ? null : rowJson(stored));
    // After a clock that was ahead, do not wait for that time.
    return Math.abs(now - walkedAt) >= keep.messages / walksInTime;
  }

  return {
    /** Subjects that were only seen and have no events left. */
    async seen(now: number, keep: RetentionTimes, limit: number): Promise<PurgedSubjects> {
      const names = await link.run((redis) => redis.zrangebyscore(`${base}bare`, "-inf", now, "LIMIT", 0, limit));
      const found = await rowsOf(names);
      const seen = found.filter(({ row }) => row.registeredAt === null);
      const old = seen.filter(({ row }) => row.updatedAt < now - keep.ignored);
      const young = seen.filter(({ row }) => row.updatedAt >= now - keep.ignored);
      const waiting = new Set(seen.map(({ name }) => name));
      const settled = names.filter((name) => !waiting.has(name));
      const later = young.flatMap(({ name, row }) => [String(Math.min(now + latestLookMs, row.updatedAt + keep.ignored + 1)), name]);
      const messages = await forget(old, (tx) => {
        if (settled.length > 0) tx.call("ZREM", `${base}bare`, ...settled);
        // XX: the subject may have left the list meanwhile because of a new event.
        if (later.length > 0) tx.call("ZADD", `${base}bare`, "XX", ...later);
      });
      return { messages, more: names.length === limit };
    },
    async registered(now: number, keep: RetentionTimes, limit: number): Promise<PurgedSubjects> {
      if (walk === null) {
        if (!(await isWalkDue(now, keep))) return { messages: 0, more: false };
        walk = { since: now, kind: "m", after: 0 };
      }
      const { since, kind, after } = walk;
      const list = `${base}registered:${kind}`;
      const found = await link.run((redis) => redis.zrangebyscore(list, `(${after}`, "+inf", "WITHSCORES", "LIMIT", 0, limit));
      const names = found.filter((_, index) => index % 2 === 0);
      const old = (await rowsOf(names)).filter(({ row }) => row.updatedAt < now - keep.messages);
      const messages = await forget(old);
      if (names.length === limit) walk = { since, kind, after: Number(found.at(-1)) };
      else if (kind === "m") walk = { since, kind: "r", after: 0 };
      else {
        walk = null;
        await transact(async (tx) => {
          const progress = readRetentionRow(await tx.read(rowKey));
          tx.put(rowKey, JSON.stringify({ ...joinRetention(progress, {}), walkedAt: since }));
        });
      }
      return { messages, more: walk !== null };
    },
  };
}
