import { hash } from "node:crypto";
import Database from "better-sqlite3";
import { bucketOf, hourMs, minuteMs, minutesKeptMs } from "../../src/model/history.ts";
import { fewestPhoneDigits } from "../../src/model/mask.ts";
import { Secret } from "../../src/model/secret.ts";
import { dispositions } from "../../src/model/states.ts";
import { never, queueState, settledState } from "../../src/store/schema/tables.ts";
import { minutesPerHour } from "../../src/store/work/counts.ts";
import { keyOf } from "../../src/store/work/subject-rows.ts";
import { account, secret, source } from "../events.ts";

export interface BuildOptions {
  /** A store's file that a relay has made, without rows, and that none has open. */
  readonly path: string;
  /** The route of all deliveries. */
  readonly route: string;
  readonly events: number;
  /** The last messages, whose events wait. Default: 3,000, due tomorrow. */
  readonly waiting?: { readonly messages: number; readonly dueAt: number };
  readonly say: (line: string) => void;
}

export interface BuiltFile {
  readonly events: number;
  readonly deliveries: number;
  readonly attempts: number;
}

/** Events in one transaction. */
const chunk = 100_000;
/** The events of so many days, the last one received now. */
const days = 20;
const dayMs = 86_400_000;
/** Ends of phone numbers in wamids. */
const phoneEnds = 10 ** fewestPhoneDigits;
/** From receipt to delivered. */
const deliveredAfterMs = 40;

/**
 * Fills a store's file with events as the relay would leave them, by SQL alone. Of each 20 messages
 * (three events each) one is ignored and one filtered; one in 500 is dead after three attempts; one
 * event in 10,007 is quarantined; the last 300 messages are parked, and those before them wait.
 */
export function buildFile({
  path,
  route,
  events,
  waiting = { messages: 3_000, dueAt: Date.now() + dayMs },
  say,
}: BuildOptions): BuiltFile {
  const db = new Database(path);
  try {
    db.pragma("synchronous = OFF");
    db.pragma("cache_size = -262144");
    db.pragma("wal_autocheckpoint = 20000");
    db.function("wamid_of", { deterministic: true }, (message) => wamidOf(Number(message)));
    db.function("key_of", { deterministic: true }, (wamid) => keyOf(String(wamid)));
    const now = Date.now();
    const store = db.prepare("INSERT INTO plans (id, verdicts) VALUES (?, ?)");
    function plan(...verdict: readonly string[]): number {
      const text = JSON.stringify([[route, ...verdict]]);
      const id = Number.parseInt(hash("sha256", text).slice(0, 12), 16);
      store.run(id, text);
      return id;
    }
    const values = {
      now,
      first: now - days * dayMs,
      step: (days * dayMs) / events,
      events,
      lastMessage: Math.ceil(events / 3),
      account,
      source,
      secret: new Secret(secret).fingerprint(),
      route,
      waiting: waiting.messages,
      dueAt: waiting.dueAt,
      deliver: plan("deliver"),
      untracked: plan("skip", "untracked"),
      filtered: plan("skip", "event"),
      park: plan("park"),
    };
    db.exec(
      "CREATE TEMP TABLE made (seq INTEGER PRIMARY KEY, message INTEGER NOT NULL, fate INTEGER NOT NULL)",
    );
    const steps = [
      makeFates,
      makeEvents,
      makeMessages,
      makeQueue,
      makeDeliveries,
      makeAttempts,
    ].map((sql) => db.prepare(sql));
    for (let from = 1; from <= events; from += chunk) {
      const to = Math.min(events, from + chunk - 1);
      db.transaction(() => {
        db.exec("DELETE FROM made");
        for (const step of steps) step.run(only(step.source, { ...values, from, to }));
      })();
      if (Math.floor((from - 1) / 1_000_000) !== Math.floor(to / 1_000_000))
        say(`${to} of ${events} events built`);
    }
    const { first } = values;
    const counter = db.prepare(
      "INSERT INTO counters (at, account, series, of, label, writer, n) VALUES (0, ?, ?, ?, ?, '', ?)",
    );
    for (const [series, n] of Object.entries({
      secret: events,
      secretFirst: first,
      secretLast: now,
    }))
      counter.run(account, series, source, values.secret, n);
    buildHistory(db, now);
    const count = (rows: string) =>
      db.prepare(`SELECT count(*) FROM ${rows}`).pluck().get() as number;
    const built = {
      events: count("events"),
      deliveries: count("deliveries") + count(`queue WHERE state <> ${queueState.parked}`),
      // The last one is stored with the delivery that it settled.
      attempts: count("attempts") + count("deliveries"),
    };
    db.pragma("wal_checkpoint(TRUNCATE)");
    return built;
  } finally {
    db.close();
  }
}

/** With a phone number of 13 digits that ends with those of `message`, as real ones have. */
function wamidOf(message: number): string {
  const phone = `549115555${String(message % phoneEnds).padStart(fewestPhoneDigits, "0")}`;
  return `wamid.${Buffer.from(`\x1c\x18\x0d${phone}\x15\x02\x00${String(message).padStart(16, "0")}\x00`, "latin1").toString("base64")}`;
}

/**
 * The counts that the relay would have made of these rows: minutes of two days, hours of the time
 * before.
 */
function buildHistory(db: Database.Database, now: number): void {
  const rolled = Math.ceil((now - minutesKeptMs) / hourMs) * minutesPerHour;
  const words = dispositions.map((word, code) => `WHEN ${code} THEN '${word}'`).join(" ");
  db.exec(`
    CREATE TEMP TABLE counted AS SELECT account, series, of, label, minute, count(*) AS n FROM (
      SELECT account, 'events' AS series, source AS of, CASE disposition ${words} END AS label, received_at / ${minuteMs} AS minute FROM events
      UNION ALL SELECT account, 'transitions', source, status, received_at / ${minuteMs} FROM events WHERE moved = 1
      UNION ALL SELECT account, 'attempts', route, iif(status BETWEEN 200 AND 299, 'delivered', CAST(status AS TEXT)), at / ${minuteMs} FROM deliveries
      UNION ALL SELECT d.account, 'attempts', a.route, CAST(a.status AS TEXT), a.at / ${minuteMs} FROM attempts a JOIN deliveries d USING (event, route)
      UNION ALL SELECT account, 'dead', route, '', settled_at / ${minuteMs} FROM deliveries WHERE state = ${settledState.dead}
      UNION ALL SELECT account, 'delivery', route, '${bucketOf(deliveredAfterMs)}', settled_at / ${minuteMs} FROM deliveries
        WHERE state = ${settledState.delivered}
    ) GROUP BY account, series, of, label, minute;
    INSERT INTO counters (at, account, series, of, label, writer, n)
      SELECT iif(minute >= ${rolled}, minute, -(minute - minute % 60)) AS at, account, series, of, label, '', sum(n) FROM counted
      GROUP BY 1, account, series, of, label;
    DROP TABLE counted;
  `);
}

/** The values that a statement names: others would be refused. */
function only(sql: string, values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(values).filter(([name]) => new RegExp(`@${name}\\b`).test(sql)),
  );
}

/** 0 delivered, 1 ignored, 2 filtered, 3 dead, 4 parked, 5 waits, 6 quarantined. */
const makeFates = `
  WITH RECURSIVE n(seq) AS (SELECT CAST(@from AS INTEGER) UNION ALL SELECT seq + 1 FROM n WHERE seq < @to), m AS (SELECT seq, (seq + 2) / 3 AS message FROM n)
  INSERT INTO made SELECT seq, message, CASE
    WHEN seq % 10007 = 0 THEN 6
    WHEN message > @lastMessage - 300 THEN 4
    WHEN message > @lastMessage - 300 - @waiting THEN 5
    WHEN message % 20 = 0 THEN 1
    WHEN message % 20 = 1 THEN 2
    WHEN message % 500 = 3 THEN 3
    ELSE 0 END FROM m`;

const makeEvents = `
  INSERT INTO events (seq, account, id, kind, source, origin, received_at, created_at, secret, subject, status, previous_status, moved,
    disposition, plan, duplicates, conflicts, fault, body)
  SELECT seq, @account,
    iif(fate = 6, NULL, unhex(printf('%012x70008000%012x', @first + seq * @step, seq))), iif(fate = 6, NULL, 'message.status'), @source, 0,
    CAST(@first + seq * @step AS INTEGER), iif(fate = 6, NULL, CAST(@first + seq * @step AS INTEGER)), @secret, iif(fate = 6, NULL, message),
    CASE WHEN fate = 6 THEN NULL WHEN seq % 3 = 1 THEN 'sent' WHEN seq % 3 = 2 THEN 'delivered' ELSE 'read' END,
    CASE seq % 3 WHEN 2 THEN 'sent' WHEN 0 THEN 'delivered' END, iif(fate = 6, 0, 1),
    CASE fate WHEN 1 THEN 2 WHEN 2 THEN 1 WHEN 4 THEN 4 WHEN 6 THEN 3 ELSE 0 END,
    CASE fate WHEN 1 THEN @untracked WHEN 2 THEN @filtered WHEN 4 THEN @park WHEN 6 THEN NULL ELSE @deliver END,
    0, 0, iif(fate = 6, 'id: Invalid input', NULL),
    CAST(printf('{"id":"0199%04x-0000-7000-8000-%012x","event":"message.status","createdAt":"2026-11-20T08:00:00.000Z","data":{"wamid":"%s","status":"delivered","conversationId":"018f2c6a-1d3e-7b5a-9c41-%012x","phoneNumberId":"106540352242922","timestamp":"%d"}}', seq % 65536, seq, wamid_of(message), message, seq) AS BLOB)
  FROM made ORDER BY seq`;

const makeMessages = `
  INSERT INTO subjects (seq, type, account, key, name, registered_at, status, times, updated_at, phone)
  SELECT message, 0, @account, key_of(wamid_of(message)), wamid_of(message), iif(fate IN (1, 4), NULL, CAST(@first + seq * @step AS INTEGER)),
    'read', '{"sent":1,"delivered":2,"read":3}', CAST(@first + seq * @step AS INTEGER), message % ${phoneEnds}
  FROM made WHERE seq % 3 = 1 ORDER BY seq`;

const makeQueue = `
  INSERT INTO queue (lane, route, event, account, state, next_at, attempts, spent, replays)
  SELECT message, @route, seq, @account,
    CASE WHEN fate = 4 THEN ${queueState.parked} WHEN seq % 3 = 1 THEN ${queueState.waiting} ELSE ${queueState.held} END,
    CASE WHEN fate = 4 THEN @now + 3600000 WHEN seq % 3 = 1 THEN @dueAt ELSE ${never} END, 0, 0, 0
  FROM made WHERE fate IN (4, 5) ORDER BY message, seq`;

const makeDeliveries = `
  INSERT INTO deliveries (event, route, account, lane, state, attempts, spent, replays, settled_at, reason, at, took_ms, status, response)
  SELECT seq, @route, @account, message, iif(fate = 0, ${settledState.delivered}, ${settledState.dead}), iif(fate = 0, 1, 3), iif(fate = 0, 1, 3), 0,
    CAST(@first + seq * @step AS INTEGER) + ${deliveredAfterMs},
    iif(fate = 3, 'out of attempts (3): the last was answered 500', NULL), CAST(@first + seq * @step AS INTEGER) + iif(fate = 0, 1, 3), 12,
    iif(fate = 0, 200, 500), CAST('{"ok":true}' AS BLOB)
  FROM made WHERE fate IN (0, 3) ORDER BY seq`;

/** Those that settled nothing. */
const makeAttempts = `
  INSERT INTO attempts (event, route, number, at, took_ms, status, response)
  SELECT seq, @route, number, CAST(@first + seq * @step AS INTEGER) + number, 12, 500, CAST('{"ok":true}' AS BLOB)
  FROM made JOIN (SELECT 1 AS number UNION ALL SELECT 2) WHERE fate = 3 ORDER BY seq, number`;
