import type { ReceivedEvent, TrackedSubject } from "../../model/event.ts";
import { countsOfTracking, type TrackedCount } from "../../model/history.ts";
import { hiddenNumber, lastPhoneDigits, maskNumber } from "../../model/mask.ts";
import type { MessageStatus, RunStatus } from "../../model/statuses.ts";
import { runStatuses, stageOf } from "../../model/statuses.ts";
import type { MessageState, RunState, Tracking } from "../../model/tracking.ts";
import { type TrackedState, unobserved } from "../../model/tracking.ts";
import { type Facts, factsOf, nothingTracked } from "../../track/facts.ts";
import type { KnownMessage, MessageFacts } from "../../track/registration.ts";
import { type Rules, stepSubject } from "../rules.ts";
import type { Db } from "./file.ts";
import { messageSubject, runSubject, type SubjectKey } from "./names.ts";

interface Tracked {
  readonly subject: SubjectKey | null;
  readonly tracking: Tracking;
  readonly counts: readonly TrackedCount[];
  /** The error of tracking. The status did not change. */
  readonly error?: unknown;
}

/** The rows of messages or of runs. */
interface Rows<Row extends { readonly seq: number }> {
  readonly subjectOf: (seq: number) => SubjectKey;
  readonly stateOf: (row: Row) => TrackedState<string>;
  readonly factsOf: (row: Row | undefined) => Facts;
  /** The registered send time in unix ms. */
  readonly sentAtOf: (row: Row | undefined) => number | null;
  find(account: number, key: string): Row | undefined;
  add(account: number, key: string, state: TrackedState<string>, at: number): number;
  save(seq: number, state: TrackedState<string>, at: number): void;
  revive?(row: Row): void;
}

/** Applies an event to its message or run, inside the accepting transaction. */
export function createTrack(messages: Messages, runs: Runs, rules: Rules) {
  function apply<Row extends { readonly seq: number }>(
    rows: Rows<Row>,
    account: number,
    key: string,
    { subject, receivedAt, at }: { readonly subject: TrackedSubject; readonly receivedAt: number; readonly at: number },
  ): Tracked {
    const row = rows.find(account, key);
    let before: TrackedState<string>;
    let step: ReturnType<typeof stepSubject>;
    try {
      before = row === undefined ? unobserved : rows.stateOf(row);
      step = stepSubject(rules, subject, before, rows.factsOf(row), at);
    } catch (error) {
      const seq = row?.seq ?? rows.add(account, key, unobserved, receivedAt);
      return { subject: rows.subjectOf(seq), tracking: nothingTracked, counts: [], error };
    }
    const { state, tracking } = step;
    const counts = countsOfTracking(tracking, state.times, rows.sentAtOf(row));
    if (row === undefined) return { subject: rows.subjectOf(rows.add(account, key, state, receivedAt)), tracking, counts };
    rows.revive?.(row);
    if (state !== before) rows.save(row.seq, state, receivedAt);
    return { subject: rows.subjectOf(row.seq), tracking, counts };
  }

  return function track(account: number, event: ReceivedEvent, at: number): Tracked {
    const { subject, receivedAt } = event;
    if (subject.type === "message") return apply(messages, account, subject.wamid, { subject, receivedAt, at });
    if (subject.type === "run") return apply(runs, account, subject.runId, { subject, receivedAt, at });
    return { subject: null, tracking: nothingTracked, counts: [] };
  };
}

/** What registration recorded of a message or run, as far as routes see it. */
export function subjectFacts(subject: SubjectKey, messages: Messages, runs: Runs): Facts {
  const seq = Math.floor(subject / 2);
  return subject % 2 === 0 ? messageFacts(messages.get(seq)) : runFacts(runs.get(seq));
}

function messageFacts(row: MessageRow | undefined): Facts {
  const isRegistered = row !== undefined && row.registered_at !== null;
  return factsOf("message", isRegistered ? { id: row.service_id, reference: row.reference, metadata: row.metadata } : null);
}

function runFacts(row: RunRow | undefined): Facts {
  const isRegistered = row !== undefined && row.registered_at !== null;
  return factsOf("run", isRegistered ? { id: null, reference: row.reference, metadata: row.metadata } : null);
}

export interface MessageRow {
  seq: number;
  account: number;
  wamid: string;
  service_id: string | null;
  reference: string | null;
  metadata: string | null;
  registered_at: number | null;
  status: MessageStatus | null;
  error_code: string | null;
  /** JSON. */
  times: string;
  updated_at: number;
  conversation_id: string | null;
  /** The registered send time in unix ms. */
  told_sent_at: number | null;
  /** 1: unknown to the service and no longer polled. */
  missing: number | null;
}

/** The facts of a registration and its time in unix ms. */
interface Registration extends MessageFacts {
  readonly at: number;
}

export function knownMessage(row: MessageRow): KnownMessage {
  return {
    facts: {
      id: row.service_id,
      reference: row.reference,
      conversationId: row.conversation_id,
      metadata: row.metadata,
      sentAt: row.told_sent_at,
    },
    registeredAt: row.registered_at,
  };
}

export function stateOf({ status, error_code: error, times }: MessageRow): MessageState {
  return { status, error, times: JSON.parse(times) };
}

export type Messages = ReturnType<typeof createMessages>;

export function createMessages(db: Db) {
  const byWamid = db.prepare<[number, string], MessageRow>("SELECT * FROM messages WHERE account = ? AND wamid = ?");
  const bySeq = db.prepare<[number], MessageRow>("SELECT * FROM messages WHERE seq = ?");
  const insert = db.prepare(`
    INSERT INTO messages (account, wamid, service_id, reference, conversation_id, metadata, told_sent_at, registered_at, status, error_code,
      times, updated_at, mask, id_mask, phone)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const update = db.prepare("UPDATE messages SET status = ?, error_code = ?, times = ?, updated_at = ? WHERE seq = ?");
  const register = db.prepare(`
    UPDATE messages SET service_id = ?, reference = ?, conversation_id = ?, metadata = ?, told_sent_at = ?,
      registered_at = coalesce(registered_at, ?), updated_at = ?, id_mask = ? WHERE seq = ?`);

  const found = db.prepare<[number]>("UPDATE messages SET missing = NULL WHERE seq = ?");
  const pollAgain = db.prepare<[number]>(
    "UPDATE asks SET next_at = since, rank = 0, asks = 0, failures = 0, misses = 0, asked_at = NULL WHERE message = ? AND next_at IS NULL",
  );

  function factsOf(r: Registration | null): (string | number | null)[] {
    return r === null ? [null, null, null, null, null, null] : [r.id, r.reference, r.conversationId, r.metadata, r.sentAt, r.at];
  }

  const idMaskOf = (facts: Registration | null): number | null => (facts === null || facts.id === null ? null : hiddenNumber(facts.id));

  return {
    stateOf,
    factsOf: messageFacts,
    sentAtOf: (row: MessageRow | undefined): number | null => row?.told_sent_at ?? null,
    subjectOf: messageSubject,
    find: (account: number, wamid: string): MessageRow | undefined => byWamid.get(account, wamid),
    get: (seq: number): MessageRow | undefined => bySeq.get(seq),
    /** Adds a message that was seen, registered or both. Returns its seq. */
    add(account: number, wamid: string, state: MessageState, at: number, registration: Registration | null = null): number {
      const { status, error, times } = state;
      const phone = lastPhoneDigits(wamid);
      const terms = [maskNumber(wamid), idMaskOf(registration), phone === null ? null : Number(phone)];
      return Number(
        insert.run(account, wamid, ...factsOf(registration), status, error, JSON.stringify(times), at, ...terms).lastInsertRowid,
      );
    },
    save(seq: number, { status, error, times }: MessageState, at: number): void {
      update.run(status, error, JSON.stringify(times), at, seq);
    },
    /** An event or a registration shows that a missing message exists: polling starts again. */
    revive(row: MessageRow): void {
      if (row.missing === null) return;
      found.run(row.seq);
      pollAgain.run(row.seq);
    },
    /** Replaces all facts of a message. Its first registration time stays. */
    register(seq: number, facts: Registration): void {
      register.run(...factsOf(facts), facts.at, idMaskOf(facts), seq);
    },
  };
}

export interface RunRow {
  seq: number;
  account: number;
  run_id: string;
  reference: string | null;
  metadata: string | null;
  registered_at: number | null;
  status: RunStatus | null;
  error: string | null;
  /** JSON. */
  times: string;
  updated_at: number;
}

export function runStateOf({ status, error, times }: RunRow): RunState {
  return { status, error, times: JSON.parse(times) };
}

export type Runs = ReturnType<typeof createRuns>;

export function createRuns(db: Db) {
  const byId = db.prepare<[number, string], RunRow>("SELECT * FROM runs WHERE account = ? AND run_id = ?");
  const bySeq = db.prepare<[number], RunRow>("SELECT * FROM runs WHERE seq = ?");
  const insert = db.prepare(
    "INSERT INTO runs (account, run_id, status, error, ended, times, updated_at, mask) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const update = db.prepare("UPDATE runs SET status = ?, error = ?, ended = ?, times = ?, updated_at = ? WHERE seq = ?");
  const register = db.prepare<[string, string | null, number, number, number]>(
    "UPDATE runs SET reference = ?, metadata = ?, registered_at = ?, updated_at = ? WHERE seq = ?",
  );

  function columns({ status, error, times }: RunState): (string | number | null)[] {
    return [status, error, stageOf(runStatuses, status) === "final" ? 1 : 0, JSON.stringify(times)];
  }

  return {
    stateOf: runStateOf,
    factsOf: runFacts,
    sentAtOf: () => null,
    subjectOf: runSubject,
    find: (account: number, runId: string): RunRow | undefined => byId.get(account, runId),
    get: (seq: number): RunRow | undefined => bySeq.get(seq),
    add: (account: number, runId: string, state: RunState, at: number): number =>
      Number(insert.run(account, runId, ...columns(state), at, hiddenNumber(runId)).lastInsertRowid),
    save(seq: number, state: RunState, at: number): void {
      update.run(...columns(state), at, seq);
    },
    /** Registers a run. `metadata` is a JSON object, `at` unix ms. */
    register(seq: number, { reference, metadata, at }: { reference: string; metadata: string | null; at: number }): void {
      register.run(reference, metadata, at, at, seq);
    },
  };
}
