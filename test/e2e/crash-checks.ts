import { expect } from "vitest";
import {
  type MessageState,
  type RunState,
  stepMessage,
  stepRun,
  unobserved,
} from "../../src/model/tracking.ts";
import type { Arrival } from "../../src/sandbox/downstream.ts";
import { rowsOf } from "../harness/store-rows.ts";

export interface StoredEvent {
  readonly seq: number;
  /** As the service wrote it; null for a quarantined body. */
  readonly id: string | null;
  readonly wamid: string | null;
  readonly registered: boolean;
  /** Whether it was a transition. */
  readonly moved: boolean;
}

/** Every event in the file, by seq, with the message it is about. */
export function storedEvents(storePath: string): StoredEvent[] {
  const rows = rowsOf<{
    seq: number;
    id: string;
    wamid: string | null;
    registered: number | null;
    moved: number;
  }>(
    storePath,
    `SELECT e.seq, lower(hex(e.id)) AS id, s.name AS wamid, s.registered_at AS registered, e.moved
     FROM events e LEFT JOIN subjects s ON s.seq = e.subject AND s.type = 0 ORDER BY e.seq`,
  );
  return rows.map(({ seq, id, wamid, registered, moved }) => ({
    seq,
    id: id === "" ? null : id.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5"),
    wamid,
    registered: registered !== null,
    moved: moved === 1,
  }));
}

/**
 * Where deliveries of one message came in another order than their events were accepted: each
 * arrival after one of a later event, be it a first or a repeated one (D1 D1 D2 is fine, D1 D2 D1
 * is not).
 */
export function findSetbacks(
  arrivals: readonly Arrival[],
  path: string,
  seqOf: ReadonlyMap<string, number>,
): string[] {
  const furthest = new Map<string, { seq: number; number: number }>();
  const setbacks: string[] = [];
  for (const { path: at, wamid, eventId, number, attempt } of arrivals) {
    const seq = eventId === null ? undefined : seqOf.get(eventId);
    if (at !== path || wamid === null || seq === undefined) continue;
    const before = furthest.get(wamid);
    if (before !== undefined && before.seq > seq) {
      setbacks.push(
        `${path}: arrival ${number} is event ${seq} (attempt ${attempt}), but ${before.seq} of the same message came as ${before.number}`,
      );
    } else furthest.set(wamid, { seq, number });
  }
  return setbacks;
}

/**
 * Event ids that reached `path`; fails when one event came under two delivery ids or one id for two
 * events.
 */
export function arrivedAt(arrivals: readonly Arrival[], path: string): Set<string> {
  const deliveryOf = new Map<string, string>();
  const eventOf = new Map<string, string>();
  for (const { path: at, eventId, deliveryId } of arrivals) {
    if (at !== path || eventId === null) continue;
    expect(deliveryOf.get(eventId) ?? deliveryId).toBe(deliveryId);
    expect(eventOf.get(deliveryId) ?? eventId).toBe(eventId);
    deliveryOf.set(eventId, deliveryId);
    eventOf.set(deliveryId, eventId);
  }
  return new Set(deliveryOf.keys());
}

export interface TrackedEvent {
  readonly subject: number;
  readonly status: string | null;
  readonly error_code: string | null;
  readonly created_at: number;
  /** `data.error` of its body. */
  readonly error: string | null;
  readonly moved: number;
}

/** A message (type 0) or a run (type 1), as stored. */
export interface SubjectRow {
  readonly seq: number;
  readonly type: number;
  readonly status: string | null;
  readonly error: string | null;
  readonly times: string;
}

/** {@link compareStates} of a file. */
export function findWrongStates(storePath: string): string[] {
  const events = rowsOf<TrackedEvent>(
    storePath,
    `SELECT subject, status, error_code, created_at, json_extract(body, '$.data.error') AS error, moved
     FROM events WHERE subject IS NOT NULL ORDER BY seq`,
  );
  return compareStates(events, rowsOf<SubjectRow>(storePath, "SELECT * FROM subjects"));
}

/**
 * Compares each message and run with the state machine applied to the stored events in the order of
 * seq; gives what differs.
 */
export function compareStates(
  events: readonly TrackedEvent[],
  subjects: readonly SubjectRow[],
): string[] {
  const rows = new Map(subjects.map((row) => [row.seq, row]));
  const messages = new Map<number, MessageState>();
  const runs = new Map<number, RunState>();
  const wrong: string[] = [];
  for (const { subject: seq, status, error_code, created_at: at, error, moved } of events) {
    const type = rows.get(seq)?.type;
    if (type === 0) {
      const { state, transition } = stepMessage(messages.get(seq) ?? unobserved, {
        status,
        error: error_code,
        at,
      });
      messages.set(seq, state);
      if ((moved === 1) !== (transition !== null))
        wrong.push(`${status} of message ${seq} is ${moved === 1 ? "a" : "no"} transition`);
    } else if (type === 1)
      runs.set(seq, stepRun(runs.get(seq) ?? unobserved, { status, error, at }).state);
    else wrong.push(`subject ${seq} is missing`);
  }
  for (const { seq, type, ...row } of subjects) {
    const { status, error, times } = (type === 0 ? messages : runs).get(seq) ?? unobserved;
    // A registration sets the time of `started`, and no event.
    const known = sorted(JSON.parse(row.times)).filter(
      ([word]) => type === 0 || word !== "started",
    );
    const [found, wanted] = [
      [row.status, row.error, known],
      [status, error, sorted(times)],
    ].map((state) => JSON.stringify(state));
    if (found !== wanted)
      wrong.push(`${type === 0 ? "message" : "run"} ${seq} is ${found}, not ${wanted}`);
  }
  return wrong;
}

const sorted = (times: Readonly<Record<string, number>>) => Object.entries(times).sort();
