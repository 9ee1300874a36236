import type { Purged, RetentionTimes } from "../port.ts";
import type { Db } from "./file.ts";
import { dispositionCode, messageSubject, type Names, runSubject, stateCode } from "./names.ts";

const nothing: Purged = { events: 0, deliveries: 0, messages: 0, done: false };

/** The steps of the history: how many rows each took. */
interface HistoryUpkeep {
  roll(now: number, limit: number): number;
  purge(now: number, keep: number, limit: number): number | null;
}

type Phase = "ignored" | "events" | "messages" | "runs" | "kinds" | "hours" | "history" | "pages";

/**
 * Deletes rows past their retention, a few per call, so that receiving waits for one small transaction at most. Open
 * deliveries stay at any age, and so do their events and messages.
 */
export function createRetention(db: Db, names: Pick<Names, "purgeKinds">, history: HistoryUpkeep) {
  const greatest = db.prepare<[], number | null>("SELECT max(seq) FROM events").pluck();
  const ignored = db
    .prepare<[number, number, number], number>(
      `SELECT seq FROM events WHERE disposition = ${dispositionCode.ignored} AND received_at < +? AND seq < +? ORDER BY received_at LIMIT +?`,
    )
    .pluck();
  const oldest = db.prepare<[number, number], { seq: number; received_at: number; disposition: number }>(
    "SELECT seq, received_at, disposition FROM events WHERE seq > +? ORDER BY seq LIMIT +?",
  );
  const settledOf = db
    .prepare<[number, number], number>(
      `SELECT route FROM deliveries WHERE event = ? AND state >= ${stateCode.delivered} AND settled_at < ?`,
    )
    .pluck();
  const hasDeliveries = db.prepare<[number], number>("SELECT 1 FROM deliveries WHERE event = ? LIMIT 1").pluck();
  const deleteAttempts = db.prepare<[number, number]>("DELETE FROM attempts WHERE event = ? AND route = ?");
  const deleteDelivery = db.prepare<[number, number]>("DELETE FROM deliveries WHERE event = ? AND route = ?");
  const deleteEvent = db.prepare<[number]>("DELETE FROM events WHERE seq = ?");
  const subjectOpen = db
    .prepare<[number], number>("SELECT 1 FROM deliveries WHERE subject = ? AND state <= 1 AND subject IS NOT NULL LIMIT 1")
    .pluck();
  const hasEvents = db.prepare<[number], number>("SELECT 1 FROM events WHERE subject = ? AND subject IS NOT NULL LIMIT 1").pluck();
  const subjects = { messages: ofSubjects("messages"), runs: ofSubjects("runs") };

  function ofSubjects(table: "messages" | "runs") {
    return {
      after: db.prepare<[number, number], { seq: number; updated_at: number; registered_at: number | null }>(
        `SELECT seq, updated_at, registered_at FROM ${table} WHERE seq > +? ORDER BY seq LIMIT +?`,
      ),
      last: db.prepare<[], number | null>(`SELECT max(seq) FROM ${table}`).pluck(),
      delete: db.prepare<[number]>(`DELETE FROM ${table} WHERE seq = ?`),
    };
  }

  const giveBack = createGiveBack(db);
  const purged = createPurged(db);

  let phase: Phase = "ignored";
  let cursor = 0;

  function next(to: Phase): void {
    phase = to;
    cursor = 0;
  }

  /** Deletes deliveries of an event that settled before `before`, and the event if it is `old` and has none left. */
  function purgeEvent(seq: number, before: number, old: boolean): { events: number; deliveries: number } {
    const routes = settledOf.all(seq, before);
    for (const route of routes) {
      deleteAttempts.run(seq, route);
      deleteDelivery.run(seq, route);
    }
    if (!old || hasDeliveries.get(seq) !== undefined) return { events: 0, deliveries: routes.length };
    deleteEvent.run(seq);
    return { events: 1, deliveries: routes.length };
  }

  function purgeEvents(now: number, keep: RetentionTimes, limit: number): Purged {
    const last = greatest.get() ?? 0;
    const rows = oldest.all(cursor, limit);
    const horizon = now - Math.min(keep.events, keep.deliveries);
    let events = 0;
    let deliveries = 0;
    for (const row of rows) {
      if (row.received_at >= horizon) {
        next("messages");
        return { ...nothing, events, deliveries };
      }
      cursor = row.seq;
      const purged = purgeEvent(row.seq, now - keep.deliveries, row.received_at < now - keep.events && row.seq < last);
      events += purged.events;
      deliveries += purged.deliveries;
    }
    if (rows.length < limit) next("messages");
    return { ...nothing, events, deliveries };
  }

  /**
   * Deletes registered subjects after `messages` and seen ones after `ignored`, but none before its last event: otherwise a
   * late event could move a status back. The greatest seq stays, so that none is reused.
   */
  function purgeSubjects(kind: "messages" | "runs", now: number, keep: RetentionTimes, limit: number): Purged {
    const of = subjects[kind];
    const rows = of.after.all(cursor, limit);
    const last = of.last.get() ?? 0;
    let messages = 0;
    for (const row of rows) {
      cursor = row.seq;
      const age = row.registered_at === null ? keep.ignored : keep.messages;
      const subject = kind === "messages" ? messageSubject(row.seq) : runSubject(row.seq);
      if (row.updated_at >= now - age || row.seq === last) continue;
      if (subjectOpen.get(subject) !== undefined || hasEvents.get(subject) !== undefined) continue;
      of.delete.run(row.seq);
      messages += 1;
    }
    if (rows.length < limit) next(kind === "messages" ? "runs" : "kinds");
    return { ...nothing, messages };
  }

  function step(now: number, keep: RetentionTimes, limit: number): Purged {
    if (phase === "ignored") {
      const seqs = ignored.all(now - keep.ignored, greatest.get() ?? 0, limit);
      for (const seq of seqs) deleteEvent.run(seq);
      if (seqs.length > 0) purged.note("events", now - keep.ignored);
      if (seqs.length < limit) next("events");
      return { ...nothing, events: seqs.length };
    }
    if (phase === "events") {
      const taken = purgeEvents(now, keep, limit);
      if (taken.events > 0) purged.note("events", now - keep.events);
      if (taken.deliveries > 0) purged.note("deliveries", now - keep.deliveries);
      return taken;
    }
    if (phase === "kinds") {
      const { last } = names.purgeKinds(cursor, limit);
      if (last === null) next("hours");
      else cursor = last;
      return nothing;
    }
    if (phase === "hours") {
      if (history.roll(now, limit) < limit) next("history");
      return nothing;
    }
    if (phase === "history") {
      if (history.purge(now, keep.history, limit) === null) next("pages");
      return nothing;
    }
    if (phase !== "pages") return purgeSubjects(phase, now, keep, limit);
    const done = !giveBack(limit);
    if (done) next("ignored");
    return { ...nothing, done };
  }

  /** One step of up to `limit` rows, for one turn. Call it inside a transaction. */
  return function purge(now: number, keep: RetentionTimes, limit: number): Purged {
    const sum = { ...nothing };
    inOneTurn(limit, (most) => {
      const { events, deliveries, messages, done } = step(now, keep, most);
      sum.events += events;
      sum.deliveries += deliveries;
      sum.messages += messages;
      sum.done = done;
      return done ? 0 : most;
    });
    return sum;
  };
}

type What = "events" | "deliveries" | "history";

/**
 * The time (unix ms) before which retention may have deleted events, by receipt, deliveries, by settlement, and history. The
 * audit reports what is missing after it. Call it inside a transaction. Null: nothing was deleted.
 */
export function createPurged(db: Db) {
  const select = db.prepare<[string], string>("SELECT value FROM meta WHERE key = ?").pluck();
  const upsert = db.readonly
    ? null
    : db.prepare<[string, string]>(
        `INSERT INTO meta (key, value) VALUES (?, ?)
         ON CONFLICT (key) DO UPDATE SET value = excluded.value WHERE CAST(excluded.value AS INTEGER) > CAST(value AS INTEGER)`,
      );
  return {
    before(what: What): number | null {
      const value = select.get(`swept ${what}`);
      return value === undefined ? null : Number(value);
    },
    note(what: What, before: number): void {
      if (upsert === null) throw new Error("nothing is purged through a reader");
      upsert.run(`swept ${what}`, String(before));
    },
  };
}

/** Free pages that stay in the file, so that it does not shrink and grow all day: 4 MiB, or a tenth of the used pages. */
const spare = { pages: 1024, share: 0.1 };
/** `PRAGMA auto_vacuum` of a file that can return its free pages. A file that was empty before the relay opened it keeps them. */
const incremental = 2;

/**
 * Returns free pages to the disk, `most` at a time, so that the file shrinks again after a campaign. False: none left.
 * Call it inside a transaction.
 */
export function createGiveBack(db: Db): (most: number) => boolean {
  const look = (name: string) => db.pragma(name, { simple: true }) as number;
  const possible = look("auto_vacuum") === incremental;
  return (most) => {
    if (!possible) return false;
    const free = look("freelist_count");
    const used = look("page_count") - free;
    const surplus = Math.floor(free - Math.max(spare.pages, used * spare.share));
    if (surplus <= 0) return false;
    db.pragma(`incremental_vacuum(${Math.min(most, surplus)})`);
    return true;
  };
}

/** How long upkeep may block the event loop, without its commit. Webhooks wait for it. */
const turnMs = 2;
/** Rows between two looks at the clock. */
const chunkRows = 50;

/**
 * Calls `some` with the number of rows it may take until it takes fewer, `limit` is reached, or the turn is over. Returns
 * the sum. The time is fixed, because the number of rows depends on the machine and its load.
 */
export function inOneTurn(limit: number, some: (most: number) => number, chunk = chunkRows): number {
  const endAt = performance.now() + turnMs;
  let taken = 0;
  for (;;) {
    const most = Math.min(chunk, limit - taken);
    const took = some(most);
    taken += took;
    if (took < most || taken >= limit || performance.now() >= endAt) return taken;
  }
}
