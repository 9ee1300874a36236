import type { DeliveryState } from "../../event/delivery.ts";
import type { DueDelivery } from "../planned.ts";
import { stateCode } from "./codes.ts";
import type { Names } from "./names.ts";
import type { Db } from "./open.ts";

/** Which settled deliveries to send once more; all that is given must hold. */
export interface ReplayFilter {
  readonly route?: string | undefined;
  readonly states: readonly Extract<DeliveryState, "delivered" | "dead">[];
  readonly errorCode?: string | undefined;
  /** Unix ms of acceptance, from (included) and to (not included). */
  readonly from?: number | undefined;
  readonly to?: number | undefined;
}

interface Row {
  event: number;
  route: number;
  subject: number | null;
}

/** Settled deliveries made to wait again, under their old ids, in order. For inside a transaction. */
export function createReplay(db: Db, names: Names) {
  const open = db
    .prepare<[number, number], number>(
      "SELECT 1 FROM deliveries WHERE subject = ? AND route = ? AND state <= 1 AND subject IS NOT NULL LIMIT 1",
    )
    .pluck();
  const one = db.prepare<[number, number], Row & { state: number }>(
    "SELECT event, route, subject, state FROM deliveries WHERE event = ? AND route = ?",
  );
  const again = db.prepare<[number, number | null, number, number]>(
    "UPDATE deliveries SET state = ?, next_at = ?, spent = 0, replays = replays + 1, settled_at = NULL, reason = NULL WHERE event = ? AND route = ?",
  );

  function requeue(row: Row, at: number): DueDelivery | null {
    const held = row.subject !== null && open.get(row.subject, row.route) !== undefined;
    again.run(held ? stateCode.held : stateCode.waiting, held ? null : at, row.event, row.route);
    return held ? null : { route: names.nameOf(row.route), event: row.event, at };
  }

  function where(filter: ReplayFilter): { sql: string; values: Record<string, number | string> } | null {
    const values: Record<string, number | string> = {};
    const conditions = [`d.state IN (${filter.states.map((state) => stateCode[state]).join(", ")})`];
    if (filter.route !== undefined) {
      const route = names.find("route", filter.route);
      if (route === null) return null;
      conditions.push("d.route = @route");
      values["route"] = route;
    }
    if (filter.errorCode !== undefined) {
      conditions.push("e.error_code = @errorCode");
      values["errorCode"] = filter.errorCode;
    }
    if (filter.from !== undefined) {
      conditions.push("e.received_at >= @from");
      values["from"] = filter.from;
    }
    if (filter.to !== undefined) {
      conditions.push("e.received_at < @to");
      values["to"] = filter.to;
    }
    return { sql: conditions.join(" AND "), values };
  }

  return {
    count(filter: ReplayFilter): number {
      const condition = where(filter);
      if (condition === null) return 0;
      const sql = `SELECT count(*) FROM deliveries d JOIN events e ON e.seq = d.event WHERE ${condition.sql}`;
      return db.prepare<[typeof condition.values], number>(sql).pluck().get(condition.values) ?? 0;
    },
    /** Up to `limit` deliveries after `cursor`, a position in (event, route); the next cursor is null at the end. */
    step(filter: ReplayFilter, cursor: { event: number; route: number }, limit: number, at: number) {
      const condition = where(filter);
      if (condition === null) return { replayed: 0, due: [], cursor: null };
      const sql = `SELECT d.event, d.route, d.subject FROM deliveries d JOIN events e ON e.seq = d.event
        WHERE (d.event, d.route) > (@afterEvent, @afterRoute) AND ${condition.sql} ORDER BY d.event, d.route LIMIT @limit`;
      const rows = db
        .prepare<[Record<string, number | string>], Row>(sql)
        .all({ ...condition.values, afterEvent: cursor.event, afterRoute: cursor.route, limit });
      const due = rows.map((row) => requeue(row, at)).filter((delivery) => delivery !== null);
      const last = rows.at(-1);
      return {
        replayed: rows.length,
        due,
        cursor: last === undefined || rows.length < limit ? null : { event: last.event, route: last.route },
      };
    },
    /** One delivery, retried whatever its state: a settled one waits again, a waiting one goes out at once. */
    retry(event: number, route: string, at: number): { state: DeliveryState; due: DueDelivery | null } | null {
      const id = names.find("route", route);
      const row = id === null ? undefined : one.get(event, id);
      if (row === undefined) return null;
      if (row.state === stateCode.held) return { state: "held", due: null };
      if (row.state === stateCode.waiting) {
        db.prepare<[number, number, number]>("UPDATE deliveries SET next_at = ? WHERE event = ? AND route = ?").run(
          at,
          row.event,
          row.route,
        );
        return { state: "waiting", due: { route, event, at } };
      }
      const due = requeue(row, at);
      return { state: due === null ? "held" : "waiting", due };
    },
  };
}
