import type { Failing } from "../../model/shared-limits.ts";
import type { Held, WaitingEvents } from "../views.ts";
import type { Db } from "./file.ts";
import { createKept } from "./kept.ts";
import { messageSubject, type Names, runSubject, stateCode } from "./names.ts";

/** The reads of `explain` beside the views of events, messages and deliveries. */
export function createReadStories(db: Db, names: Names) {
  const messageSeq = db.prepare<[number, string], number>("SELECT seq FROM messages WHERE account = ? AND wamid = ?").pluck();
  const runSeq = db.prepare<[number, string], number>("SELECT seq FROM runs WHERE account = ? AND run_id = ?").pluck();
  const events = db
    .prepare<[number, number, number], number>("SELECT seq FROM events WHERE subject = ? AND seq > ? ORDER BY seq LIMIT ?")
    .pluck();
  const subjectOf = db.prepare<[number, number], number | null>("SELECT subject FROM deliveries WHERE event = ? AND route = ?").pluck();
  const open = "FROM deliveries WHERE subject = ? AND route = ? AND state <= 1 AND subject IS NOT NULL";
  const first = db.prepare<[number, number], number>(`SELECT event ${open} AND state = ${stateCode.waiting} LIMIT 1`).pluck();
  const ahead = db.prepare<[number, number, number], number>(`SELECT count(*) ${open} AND state = ${stateCode.held} AND event < ?`).pluck();
  const stopped = db.prepare<[number], string>("SELECT reason FROM stopped WHERE route = ?").pluck();
  const failures = createKept<Failing>(db, "failing");
  const paused = db.prepare<[number], { breaker: string; until: number }>("SELECT breaker, until FROM paused WHERE route = ?");

  return {
    eventsOf(type: "message" | "run", account: string, key: string, after: number, limit: number): number[] {
      const id = names.find("account", account);
      if (id === null) return [];
      const seq = (type === "message" ? messageSeq : runSeq).get(id, key);
      if (seq === undefined) return [];
      return events.all(type === "message" ? messageSubject(seq) : runSubject(seq), after, limit);
    },
    /** None: the transaction that accepts an event plans it. */
    waitingOf: (): WaitingEvents => ({ events: [], unseen: 0 }),
    ahead: (): null => null,
    held(event: number, route: string): Held | null {
      const id = names.find("route", route);
      const subject = id === null ? null : (subjectOf.get(event, id) ?? null);
      if (id === null || subject === null) return null;
      const behind = first.get(subject, id);
      return behind === undefined ? null : { behind, ahead: ahead.get(subject, id, event) ?? 0 };
    },
    stopReason(route: string): string | null {
      const id = names.find("route", route);
      return id === null ? null : (stopped.get(id) ?? null);
    },
    /** The pause that the destination of a route asked for: until when (unix ms), and under which settings. Null: none. */
    pauseOf(route: string): { readonly breaker: string; readonly until: number } | null {
      const id = names.find("route", route);
      return id === null ? null : (paused.get(id) ?? null);
    },
    /** The failed attempts of a route in a row. Null: none. */
    failingOf: failures.get,
  };
}
