import { createHash } from "node:crypto";
import { addVerdicts } from "../../track/backfill.ts";
import { type Facts, nothingTracked, replan } from "../../track/planning.ts";
import type { BackfillFilter, ReplayCursor, Replayed, ReplayFilter, ReplayFound, Retried } from "../port.ts";
import type { DueDelivery } from "../rules.ts";
import { runPipeline } from "./client.ts";
import { type EventRow, readBodies, readBody, readEventRow, type StoredEvent, stateCode, stateOf } from "./event-rows.ts";
import { readSubjectName, type SubjectName } from "./keys.ts";
import type { StoredParts } from "./live-seqs.ts";
import { concludeEvent, deliverAll } from "./plans.ts";

import { readSubjectRow, rowJson, unseenSubject } from "./rows.ts";
import { factsOf } from "./subjects.ts";
import type { Transact, WriteParts } from "./transact.ts";

/** Deliveries per step. */
const mostReplayedAtOnce = 200;

/** Makes settled deliveries wait again, under their ids and in order. */
export function createReplay(transact: Transact) {
  async function replaySome(found: ReplayFound["found"], states: ReplayFilter["states"], at: number, due: DueDelivery[]): Promise<number> {
    const codes = states.map(stateCode).join("");
    let replayed = 0;
    await transact((tx) => {
      for (const { event, route } of found) {
        // It may have been retried or purged since it was found.
        tx.operate(["replay", String(event), route, String(at), codes], (state) => {
          if (state === "") return;
          replayed += 1;
          if (state === "0") due.push({ route, event, at });
        });
      }
    });
    return replayed;
  }

  return {
    /** Those of `found` that are still settled wait again. */
    async replay(found: ReplayFound["found"], states: ReplayFilter["states"], at: number): Promise<Replayed> {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (let from = 0; from < found.length; from += mostReplayedAtOnce) {
        replayed += await replaySome(found.slice(from, from + mostReplayedAtOnce), states, at, due);
      }
      return { replayed, due };
    },
    /** Retries one delivery in any state: a settled one waits again, a waiting one is due at once. */
    async retry(event: number, route: string, at: number): Promise<Retried | null> {
      let code = "";
      await transact((tx) => {
        tx.operate(["retry", String(event), route, String(at)], (result) => {
          code = String(result);
        });
      });
      if (code === "") return null;
      const state = stateOf(code);
      return { state, due: state === "waiting" ? { route, event, at } : null };
    },
  };
}

type Place = ReplayFound["found"][number];

/** A route's position in a walk over routes: arbitrary, but independent of the other routes. */
const routeNumber = (route: string): number => createHash("sha256").update(route).digest().readUIntBE(0, 6) + 1;

/**
 * One pass over the settled deliveries. Each call reads `limit` events or dead deliveries, whether they match or not.
 * The pass only moves forward, so a delivery that settles again meanwhile is not found twice. Dead deliveries come route by
 * route, all others in the order of acceptance.
 */
export function createReplayWalk({ keys, link, live, events }: StoredParts) {
  /** The places whose deliveries match the filter, in their order. */
  async function settled(places: readonly Place[], filter: ReplayFilter, { since }: ReplayCursor, now: number): Promise<Place[]> {
    if (places.length === 0) return [];
    const found = (await runPipeline(link, (commands) => {
      for (const { event, route } of places) commands.hmget(keys.delivery(event, route), "s", "t", "k", "n");
    })) as (string | null)[][];
    return places.filter((_, index) => {
      const [state = null, settledAt = null, cause = null, nextAt = null] = found[index] ?? [];
      if (filter.cause !== undefined && cause !== filter.cause) return false;
      // What is due goes out without a retry.
      if (isOfWaiting(filter)) return state === stateCode("waiting") && Number(nextAt) > now;
      if (state === null || settledAt === null || !filter.states.some((wanted) => wanted === stateOf(state))) return false;
      // A time in the future was written under a wrong clock, not during this walk.
      return Number(settledAt) <= since || Number(settledAt) > now;
    });
  }

  /** The places whose events match the filter. */
  async function ofMatchingEvents(places: readonly Place[], filter: ReplayFilter): Promise<Place[]> {
    if (!isOfEvents(filter)) return [...places];
    const rows = await events.rows([...new Set(places.map(({ event }) => event))]);
    const candidates = new Set(rows.filter((row) => matches(filter, row)).map(({ seq }) => seq));
    return places.filter(({ event }) => candidates.has(event));
  }

  /** Routes in the order of the walk, from that of the cursor on. */
  async function routesFrom(filter: ReplayFilter, cursor: ReplayCursor): Promise<{ route: string; number: number }[]> {
    const known = filter.route === undefined ? await link.run((redis) => redis.smembers(`${keys.base}routes`)) : [filter.route];
    return known
      .map((route) => ({ route, number: routeNumber(route) }))
      .sort((a, b) => a.number - b.number)
      .filter(({ number }) => number >= Number(cursor.route));
  }

  /** Of lists by seq, one for each route. */
  async function listed(
    listOf: (route: string) => string,
    filter: ReplayFilter,
    cursor: ReplayCursor,
    now: number,
    limit: number,
  ): Promise<ReplayFound> {
    const places: Place[] = [];
    let next: ReplayCursor | null = null;
    for (const { route, number } of await routesFrom(filter, cursor)) {
      const after = number === cursor.route ? cursor.event : 0;
      const most = limit - places.length;
      const seqs = await link.run((redis) => redis.zrangebyscore(listOf(route), `(${after}`, "+inf", "LIMIT", 0, most));
      places.push(...seqs.map((seq) => ({ event: Number(seq), route })));
      if (seqs.length < most) continue;
      next = { since: cursor.since, event: Number(seqs.at(-1) ?? after), route: number };
      break;
    }
    return { found: await settled(await ofMatchingEvents(places, filter), filter, cursor, now), cursor: next };
  }

  async function all(filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): Promise<ReplayFound> {
    const seqs = await live.after(cursor.event, limit);
    const rows = (await events.rows(seqs)).filter((row) => matches(filter, row));
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

  return (filter: ReplayFilter, cursor: ReplayCursor, now: number, limit: number): Promise<ReplayFound> => {
    const { states, cause } = filter;
    if (isOfWaiting(filter) && cause != null) {
      return listed((route) => keys.cause(route, "waiting", cause), filter, cursor, now, limit);
    }
    if (states.every((state) => state === "dead")) return listed((route) => `${keys.base}dead:${route}`, filter, cursor, now, limit);
    return all(filter, cursor, now, limit);
  };
}

const isOfWaiting = ({ states }: ReplayFilter): boolean => states.includes("waiting");

interface OfEvents {
  readonly errorCode?: string | undefined;
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

const isOfEvents = ({ errorCode, from, to }: OfEvents): boolean => errorCode !== undefined || from !== undefined || to !== undefined;

/** Whether the event matches the part of a filter that concerns events. */
function matches({ errorCode, from, to }: OfEvents, row: Pick<EventRow, "errorCode" | "receivedAt">): boolean {
  if (errorCode !== undefined && row.errorCode !== errorCode) return false;
  return (from === undefined || row.receivedAt >= from) && (to === undefined || row.receivedAt < to);
}

/** Events per step. */
const mostPlannedAtOnce = 20;
/** Bodies held in memory at once. */
const mostBytes = 4 * 1024 * 1024;

/**
 * Backfill: ignored or filtered events get their deliveries after a late registration or for a route added since. A route
 * never gets an event twice (promise 2): its plan stays, and only new verdicts are added.
 */
export function createBackfill({ keys, link, rules, transact, live, events }: WriteParts) {
  async function planOf(row: EventRow, body: Buffer, subject: string | null, only: string | undefined) {
    const [kept = []] = await events.verdicts([row]);
    return addVerdicts(kept, replan(rules, { ...row, body }, factsFrom(row.subject, subject)) ?? [], only);
  }

  async function lookAt(rows: readonly StoredEvent[], route: string | undefined): Promise<ReplayFound["found"]> {
    if (rows.length === 0) return [];
    const bodies = await readBodies(
      link,
      keys,
      rows.map(({ seq }) => seq),
    );
    const names = rows.map(({ subject }) => subject ?? "");
    const subjects = await link.run((redis) => redis.mget(names.map(keys.of)));
    const found = await Promise.all(
      rows.map(async (row, index) => {
        const body = bodies[index] ?? null;
        const subject = row.subject === null ? null : (subjects[index] ?? null);
        if (body === null) return [];
        const { added } = await planOf(row, body, subject === null ? null : rowJson(subject), route);
        return added.map((verdict) => ({ event: row.seq, route: verdict.route }));
      }),
    );
    return found.flat();
  }

  async function planSome(seqs: readonly number[], { disposition, route }: BackfillFilter, at: number): Promise<Replayed> {
    return transact(async (tx) => {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (const seq of seqs) {
        const json = await tx.read(keys.event(seq));
        const row = json === null ? null : readEventRow(json);
        if (row === null || row.disposition !== disposition) continue;
        const subject = row.subject === null ? null : await tx.read(keys.of(row.subject));
        const body = await readBody(link, keys, seq);
        if (body === null) continue;
        const { verdicts, added } = await planOf(row, body, subject, route);
        if (added.length === 0) continue;
        concludeEvent(tx, keys, seq, row, { disposition: "routed", verdicts });
        deliverAll(tx, rules, { seq, subject: row.subject, verdicts: added, at, replays: 1 }, due);
        replayed += added.length;
      }
      return { replayed, due };
    });
  }

  return {
    /** Looks at the next `limit` events; returns those that match, with the routes that would get them. Writes nothing. */
    async findBackfill(filter: BackfillFilter, cursor: ReplayCursor, limit: number): Promise<ReplayFound> {
      const seqs = await live.after(cursor.event, limit);
      const rows = (await events.rows(seqs)).filter(
        (row) => row.disposition === filter.disposition && row.receivedAt <= cursor.since && matches(filter, row),
      );
      const found: ReplayFound["found"][number][] = [];
      for (const some of byBytes(rows)) found.push(...(await lookAt(some, filter.route)));
      const last = seqs.at(-1);
      return { found, cursor: last === undefined || seqs.length < limit ? null : { since: cursor.since, event: last, route: 0 } };
    },
    /** Plans the deliveries of the events that still match the filter, in their order. */
    async backfill(seqs: readonly number[], filter: BackfillFilter, at: number): Promise<Replayed> {
      const due: DueDelivery[] = [];
      let replayed = 0;
      for (let from = 0; from < seqs.length; from += mostPlannedAtOnce) {
        const done = await planSome(seqs.slice(from, from + mostPlannedAtOnce), filter, at);
        due.push(...done.due);
        replayed += done.replayed;
      }
      return { replayed, due };
    },
  };
}

function factsFrom(name: SubjectName | null, json: string | null): Facts {
  if (name === null) return nothingTracked;
  return factsOf(readSubjectName(name).type, json === null ? unseenSubject : readSubjectRow(json));
}

function byBytes(rows: readonly StoredEvent[]): StoredEvent[][] {
  const groups: StoredEvent[][] = [];
  let bytes = mostBytes;
  for (const row of rows) {
    bytes += row.size;
    if (bytes > mostBytes) {
      groups.push([]);
      bytes = row.size;
    }
    groups.at(-1)?.push(row);
  }
  return groups;
}
