import { hash } from "node:crypto";
import { Client } from "pg";
import { codeOf } from "../../src/store/schema/codes.ts";
import { never, queueState, settledState } from "../../src/store/schema/tables.ts";
import { account, source } from "../events.ts";

export interface FillOptions {
  /** Of a database with the tables of a store in the schema `relay`, which are empty. */
  readonly url: string;
  /** The route of all deliveries. */
  readonly route: string;
  readonly events: number;
  /** The last so many events wait to be delivered, all of them due. */
  readonly waiting: number;
  readonly say: (line: string) => void;
}

/** Events in one transaction. */
const chunk = 200_000;
/** Events received in one millisecond, up to an hour ago. */
const perMs = 10;

/**
 * Fills the tables with events as the relay would leave them, three for each message, by SQL alone.
 */
export async function fillPostgres({
  url,
  route,
  events,
  waiting,
  say,
}: FillOptions): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    await client.query(
      "SET search_path TO relay; SET synchronous_commit TO off; SET maintenance_work_mem TO '512MB'",
    );
    // To build an index at the end takes a fraction of the time.
    const { rows: indexes } = await client.query<{ name: string; text: string }>(
      `SELECT i.indexname AS name, i.indexdef AS text FROM pg_indexes i LEFT JOIN pg_constraint c ON c.conname = i.indexname
        WHERE i.schemaname = 'relay' AND c.oid IS NULL AND i.tablename IN ('events', 'subjects', 'queue', 'deliveries')`,
    );
    for (const { name } of indexes) await client.query(`DROP INDEX ${name}`);
    const verdicts = JSON.stringify([[route, "deliver"]]);
    const plan = Number.parseInt(hash("sha256", verdicts).slice(0, 12), 16);
    await client.query("INSERT INTO plans (id, verdicts) VALUES ($1, $2)", [plan, verdicts]);
    const first = Date.now() - 3_600_000 - Math.ceil(events / perMs);
    for (let from = 1; from <= events; from += chunk) {
      const to = Math.min(events, from + chunk - 1);
      const step = (sql: string, ...values: unknown[]) =>
        client.query(sql, [from, to, first, ...values]);
      await step(fillEvents, account, source, plan);
      await step(fillSubjects, account);
      await step(fillDeliveries, account, route, events - waiting);
      await step(fillQueue, account, route, events - waiting);
      if (Math.floor(from / 1_000_000) !== Math.floor((to + 1) / 1_000_000))
        say(`${to} of ${events} events filled in`);
    }
    for (const { text } of indexes) await client.query(text);
    const messages = Math.ceil(events / 3);
    await client.query(
      `SELECT setval('events_seq', ${Math.max(1, events)}), setval('subjects_seq', ${Math.max(1, messages)})`,
    );
    await client.query("VACUUM ANALYZE events, subjects, queue, deliveries");
    await client.query("CHECKPOINT");
  } finally {
    await client.end();
  }
}

const rows = "generate_series($1::bigint, $2::bigint) n";
const receivedAt = `$3::bigint + n / ${perMs}`;
const message = "(n + 2) / 3";
const wamid = `'wamid.' || translate(encode(convert_to('549115555' || lpad((${message})::text, 32, '0'), 'UTF8'), 'base64'), E'\\n', '')`;

const fillEvents = `
  INSERT INTO events (seq, account, id, kind, source, origin, received_at, created_at, subject, status, previous_status, moved, disposition, plan,
    duplicates, conflicts, body)
  SELECT n, $4, decode(lpad(to_hex(${receivedAt}), 12, '0') || '7' || substr(md5(n::text), 1, 19), 'hex'), 'message.status', $5, 0, ${receivedAt},
    ${receivedAt}, ${message}, (ARRAY['read', 'sent', 'delivered'])[n % 3 + 1], (ARRAY['delivered', NULL, 'sent'])[n % 3 + 1], 1,
    ${codeOf.disposition.routed}, $6::bigint, 0, 0,
    convert_to('{"id":"0199' || md5(n::text) || '","event":"message.status","createdAt":"2026-11-20T08:00:00.000Z","data":{"wamid":"' || ${wamid} ||
      '","status":"delivered","conversationId":"018f2c6a-1d3e-7b5a-9c41-0123456789ab","phoneNumberId":"106540352242922","timestamp":"1800000000"}}', 'UTF8')
  FROM ${rows}`;

/** Each with its first event. */
const fillSubjects = `
  INSERT INTO subjects (seq, type, account, key, name, status, times, updated_at, phone)
  SELECT ${message}, 0, $4, substr(sha256(convert_to(${wamid}, 'UTF8')), 1, 16), ${wamid}, 'read', '{"sent":1,"delivered":2,"read":3}', ${receivedAt},
    (${message}) % 10000
  FROM ${rows} WHERE n % 3 = 1`;

const fillDeliveries = `
  INSERT INTO deliveries (event, route, account, lane, state, attempts, spent, replays, settled_at, at, took_ms, status, response)
  SELECT n, $5, $4, ${message}, ${settledState.delivered}, 1, 1, 0, ${receivedAt} + 40, ${receivedAt} + 1, 12, 200, '{"ok":true}'
  FROM ${rows} WHERE n <= $6::bigint`;

/** Of a message, the first one waits and the others are held behind it. */
const fillQueue = `
  INSERT INTO queue (lane, route, event, account, state, next_at, attempts, spent, replays)
  SELECT ${message}, $5, n, $4, CASE WHEN isFirst THEN ${queueState.waiting} ELSE ${queueState.held} END,
    CASE WHEN isFirst THEN ${receivedAt} ELSE ${never} END, 0, 0, 0
  FROM (SELECT n, n % 3 = 1 OR n = $6::bigint + 1 AS isFirst FROM ${rows} WHERE n > $6::bigint) n`;
