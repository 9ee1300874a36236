import { type DeliverySubject, isProxyRoute, outcomeOf, type Settlement, type StoredDelivery } from "../../model/delivery.ts";
import { bucketOf } from "../../model/history.ts";
import type { EventId } from "../../model/ids.ts";
import type { Failing } from "../../model/shared-limits.ts";
import type { Db } from "./file.ts";
import type { HistoryWriter } from "./history.ts";
import { createReadHydrations } from "./hydrations.ts";
import { createKept } from "./kept.ts";
import { type Names, originList, stateCode, unpackEventId } from "./names.ts";
import type { DeliveryRow, EventRow } from "./rows.ts";

type SentEvent = Omit<EventRow, "seq" | "id" | "kind"> & { id: Buffer | string; kind: number };

interface SubjectRow {
  key: string;
  service_id: string | null;
  reference: string | null;
  metadata: string | null;
  registered_at: number | null;
}

/** The reads and writes of the dispatcher. Call the writes inside a transaction. */
export function createDeliveries(db: Db, names: Names, history: Pick<HistoryWriter, "count">) {
  const hydrations = createReadHydrations(db);
  const failures = createKept<Failing>(db, "failing");
  const due = db
    .prepare<[number, number, number], number>(
      `SELECT event FROM deliveries WHERE route = +? AND state = ${stateCode.waiting} AND next_at <= +? ORDER BY next_at, event LIMIT +?`,
    )
    .pluck();
  const nextDue = db
    .prepare<[number, number], number | null>(
      `SELECT min(next_at) FROM deliveries WHERE route = +? AND state = ${stateCode.waiting} AND next_at > +?`,
    )
    .pluck();
  // Three look-ups by key are twice as fast as one statement with joins (measured).
  const waiting = db.prepare<[number, number], Pick<DeliveryRow, "attempts" | "spent" | "replays">>(
    `SELECT attempts, spent, replays FROM deliveries WHERE event = ? AND route = ? AND state = ${stateCode.waiting}`,
  );
  const eventBySeq = db.prepare<[number], SentEvent>(
    `SELECT account, id, kind, source, origin, received_at, body, headers, subject, status, previous_status, moved FROM events WHERE seq = ?`,
  );
  const messageBySeq = db.prepare<[number], SubjectRow>(
    "SELECT wamid AS key, service_id, reference, metadata, registered_at FROM messages WHERE seq = ?",
  );
  const runBySeq = db.prepare<[number], SubjectRow>(
    "SELECT run_id AS key, NULL AS service_id, reference, metadata, registered_at FROM runs WHERE seq = ?",
  );
  const insertAttempt = db.prepare(
    "INSERT INTO attempts (event, route, number, at, took_ms, status, error, response) VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
  );
  const wait = db.prepare<[number, number, string, number, number]>(
    "UPDATE deliveries SET attempts = attempts + 1, spent = spent + ?, next_at = ?, cause = ? WHERE event = ? AND route = ?",
  );
  const end = db.prepare<[number, number, string | null, string | null, number, number], { subject: number | null }>(
    `UPDATE deliveries SET state = ?, attempts = attempts + 1, spent = spent + 1, next_at = NULL, settled_at = ?, reason = ?,
       cause = coalesce(?, cause)
     WHERE event = ? AND route = ? RETURNING subject`,
  );
  const nextOfSubject = db.prepare<[number, number], { event: number; state: number }>(
    `SELECT event, state FROM deliveries WHERE subject = +? AND route = +? AND state <= 1 AND subject IS NOT NULL ORDER BY state, event LIMIT 1`,
  );
  const release = db.prepare<[number, number, number]>(
    `UPDATE deliveries SET state = ${stateCode.waiting}, next_at = ? WHERE event = ? AND route = ?`,
  );
  const stop = db.prepare<[number, number, string]>(
    "INSERT INTO stopped (route, stopped_at, reason) VALUES (?, ?, ?) ON CONFLICT (route) DO UPDATE SET stopped_at = excluded.stopped_at, reason = excluded.reason",
  );
  const unstop = db.prepare<[number]>("DELETE FROM stopped WHERE route = ?");
  const pause = db.prepare<[number, string, number]>(
    `INSERT INTO paused (route, breaker, until) VALUES (?, ?, ?) ON CONFLICT (route) DO UPDATE
     SET breaker = excluded.breaker, until = iif(breaker = excluded.breaker, max(until, excluded.until), excluded.until)`,
  );
  const unpause = db.prepare<[number], number>("DELETE FROM paused WHERE route = ? RETURNING until").pluck();
  const routeNames = db.prepare<[], { id: number; name: string }>("SELECT id, name FROM names WHERE kind = 'route'");
  const abandon = db.prepare<[number, string, number]>(
    `UPDATE deliveries SET state = ${stateCode.dead}, settled_at = ?, reason = ? WHERE route = ? AND state = ${stateCode.waiting}`,
  );

  /** Releases the oldest held delivery behind a settled one, unless another one is in flight. */
  function releaseNext(subject: number, route: number, at: number): number | null {
    const next = nextOfSubject.get(subject, route);
    if (next === undefined || next.state !== stateCode.held) return null;
    release.run(at, next.event, route);
    return next.event;
  }

  function subjectOf(event: SentEvent): DeliverySubject | null {
    if (event.subject === null) return null;
    const isMessage = event.subject % 2 === 0;
    const row = (isMessage ? messageBySeq : runBySeq).get(Math.floor(event.subject / 2));
    if (row === undefined) return null;
    return {
      type: isMessage ? "message" : "run",
      key: row.key,
      tracked: row.registered_at !== null,
      id: row.service_id,
      reference: row.reference,
      metadata: row.metadata === null ? null : (JSON.parse(row.metadata) as Record<string, unknown>),
      previousStatus: event.previous_status,
      status: event.status,
      moved: event.moved === 1,
    };
  }

  return {
    due(route: string, now: number, limit: number): number[] {
      const id = names.find("route", route);
      return id === null ? [] : due.all(id, now, limit);
    },
    nextDueAt(route: string, now: number): number | null {
      const id = names.find("route", route);
      return id === null ? null : (nextDue.get(id, now) ?? null);
    },
    /** The delivery, when it is still waiting. */
    load(route: string, event: number): StoredDelivery | null {
      const id = names.find("route", route);
      const delivery = id === null ? undefined : waiting.get(event, id);
      const row = delivery === undefined ? undefined : eventBySeq.get(event);
      if (delivery === undefined || row === undefined) return null;
      // Only events without a subject can be truncated.
      const hydration = row.subject === null ? hydrations.brief(event) : null;
      return {
        route,
        event,
        account: names.nameOf(row.account),
        source: names.nameOf(row.source),
        eventId: unpackEventId(row.id) as EventId,
        kind: names.nameOf(row.kind),
        origin: originList[row.origin] ?? "webhook",
        receivedAt: row.received_at,
        body: row.body,
        headers: row.headers === null ? {} : (JSON.parse(row.headers) as Record<string, string>),
        attempts: delivery.attempts,
        spent: delivery.spent,
        replays: delivery.replays,
        subject: subjectOf(row),
        ...(hydration === null ? {} : { hydration }),
      };
    },
    /** Records an attempt and its outcome. Returns the event of the delivery that it released. */
    settle({ route, event, attempt, settled, at, receivedAt, stop: stopWhy, pause: pauses, failing }: Settlement): number | null {
      const id = names.idOf("route", route);
      const { result } = attempt;
      const { changes } = insertAttempt.run(
        event,
        id,
        attempt.number,
        attempt.at,
        Math.round(attempt.tookMs),
        result.kind === "answered" ? result.status : null,
        result.kind === "failed" ? result.error : null,
        attempt.response,
      );
      // Another settlement of the same attempt came first.
      if (changes === 0) return null;
      history.count("attempts", id, outcomeOf(result), attempt.at);
      if (settled.to === "dead") history.count("dead", id, "", at);
      if (settled.to === "delivered" && receivedAt !== undefined) history.count("delivery", id, String(bucketOf(at - receivedAt)), at);
      if (stopWhy !== undefined) stop.run(id, at, stopWhy);
      if (pauses !== undefined) pause.run(id, pauses.breaker, pauses.until);
      if (failing !== undefined) failures.put(route, failing);
      if (settled.to === "waiting") {
        wait.run(settled.spares === true ? 0 : 1, settled.nextAt, outcomeOf(result), event, id);
        return null;
      }
      const [reason, cause] = settled.to === "dead" ? [settled.reason, outcomeOf(result)] : [null, null];
      const row = end.get(stateCode[settled.to], at, reason, cause, event, id);
      return row === undefined || row.subject === null ? null : releaseNext(row.subject, id, at);
    },
    resume(route: string): boolean {
      const id = names.find("route", route);
      return id !== null && unstop.run(id).changes > 0;
    },
    /** Ends the pause that the route's destination asked for. True: there was one at `now`. */
    endPause(route: string, now: number): boolean {
      const id = names.find("route", route);
      return id !== null && (unpause.get(id) ?? 0) > now;
    },
    /** Ends proxy exchanges that a crash interrupted, also of removed sources. Returns their number. */
    endExchanges: (at: number, reason: string): number =>
      routeNames
        .all()
        .filter(({ name }) => isProxyRoute(name))
        .reduce((sum, { id }) => {
          const { changes } = abandon.run(at, reason, id);
          if (changes > 0) history.count("dead", id, "", at, changes);
          return sum + changes;
        }, 0),
  };
}
