import type { Attempt, AttemptError, AttemptResult } from "../../event/delivery.ts";
import { writeAttempt } from "../redis/attempt-row.ts";
import { stateCode } from "../redis/deliveries.ts";
import { padSeq, type SubjectName } from "../redis/keys.ts";
import { orderKey } from "../redis/order-key.ts";
import type { Batch } from "./batch.ts";
import type { Source } from "./source.ts";

interface Row {
  event: number;
  route: number;
  state: number;
  subject: number | null;
  next_at: number | null;
  attempts: number;
  spent: number;
  replays: number;
  settled_at: number | null;
  reason: string | null;
}

interface AttemptRow {
  number: number;
  at: number;
  took_ms: number;
  status: number | null;
  error: string | null;
  response: Buffer | null;
}

interface OfEvent {
  readonly seq: number;
  readonly subject: SubjectName | null;
  readonly receivedAt: number;
}

/** An event's deliveries with their attempts, in the lists of their states; who is behind whom stays. */
export function carryDeliveries({ db, names }: Source) {
  const deliveries = db.prepare<[number], Row>("SELECT * FROM deliveries WHERE event = ?");
  const attempts = db.prepare<[number, number], AttemptRow>(
    "SELECT number, at, took_ms, status, error, response FROM attempts WHERE event = ? AND route = ?",
  );

  function put(row: Row, { seq, subject, receivedAt }: OfEvent, batch: Batch): void {
    const route = names.nameOf(row.route);
    const order = row.subject === null || subject === null ? null : orderKey(subject);
    const state = String(row.state);
    const isWaiting = state === stateCode("waiting");
    // What a proxy exchanges at once has no time.
    const isExchange = isWaiting && row.next_at === null;
    const nextAt = isWaiting ? row.next_at : null;
    const key = `d:${seq}:${route}`;
    const member = String(seq);
    batch.member("routes", route);
    batch.hash(key, "s", state);
    if (order !== null) batch.hash(key, "o", order);
    if (nextAt !== null) batch.hash(key, "n", String(nextAt));
    if (row.spent > 0) batch.hash(key, "p", String(row.spent));
    if (row.replays > 0) batch.hash(key, "rp", String(row.replays));
    if (row.settled_at !== null) batch.hash(key, "t", String(row.settled_at));
    if (row.attempts > 0) {
      batch.hash(key, "a", String(row.attempts));
      for (const attempt of attempts.all(seq, row.route)) batch.hash(key, `a${attempt.number}`, writeAttempt(attemptOf(attempt)));
    }
    if (isExchange) batch.list(`px:${route}`, receivedAt, member);
    if (nextAt !== null) {
      batch.list(`due:${route}`, nextAt, padSeq(seq));
      if (order !== null) batch.set(`o:${route}:${order}`, member);
    }
    if (state === stateCode("held")) {
      batch.list(`held:${route}`, seq, member);
      if (order !== null) batch.list(`oh:${route}:${order}`, seq, member);
    }
    if (state === stateCode("dead")) {
      batch.hash(key, "r", row.reason ?? "");
      batch.list(`dead:${route}`, seq, member);
    }
  }

  return (event: OfEvent, batch: Batch): void => {
    for (const row of deliveries.all(event.seq)) put(row, event, batch);
  };
}

function attemptOf({ number, at, took_ms: tookMs, response, ...row }: AttemptRow): Attempt {
  return { number, at, tookMs, result: resultOf(row), response };
}

function resultOf({ status, error }: Pick<AttemptRow, "status" | "error">): AttemptResult {
  if (error !== null) return { kind: "failed", error: error as AttemptError };
  return status === null ? { kind: "taken" } : { kind: "answered", status, retryAfterMs: null };
}
