import type { ReceivedEvent } from "../../model/event.ts";
import type { MessageStatus, RunStatus } from "../../model/statuses.ts";
import type { MessageState, RunState, Tracking } from "../../model/tracking.ts";
import type { MessageFacts } from "../registration.ts";
import { type Facts, factsOf, nothingTracked, type Rules, unseenMessage, unseenRun } from "../rules.ts";
import { messageSubject, runSubject, type SubjectKey } from "./names.ts";
import { type Db, isSqliteFault } from "./open.ts";

interface Tracked {
  readonly subject: SubjectKey | null;
  readonly tracking: Tracking;
  /** The error of tracking. The status did not change. */
  readonly error?: unknown;
}

const nothing: Tracked = { subject: null, tracking: nothingTracked };

/** Applies an event to its message or run, inside the accepting transaction. */
export function createTrack(messages: Messages, runs: Runs, rules: Rules) {
  return function track(account: number, event: ReceivedEvent, at: number): Tracked {
    try {
      return apply(account, event, at);
    } catch (error) {
      // An error of the database is not caused by the event.
      if (isSqliteFault(error)) throw error;
      return { subject: seen(account, event), tracking: nothingTracked, error };
    }
  };

  /** The unchanged message or run, added if it is new. */
  function seen(account: number, { subject, receivedAt }: ReceivedEvent): SubjectKey | null {
    if (subject.type === "message")
      return messageSubject(
        messages.find(account, subject.wamid)?.seq ?? messages.add(account, subject.wamid, unseenMessage, null, receivedAt),
      );
    if (subject.type === "run")
      return runSubject(runs.find(account, subject.runId)?.seq ?? runs.add(account, subject.runId, unseenRun, receivedAt));
    return null;
  }

  function apply(account: number, event: ReceivedEvent, at: number): Tracked {
    const { subject, receivedAt } = event;
    if (subject.type === "message") {
      const row = messages.find(account, subject.wamid);
      const facts = messageFacts(row);
      const before = row === undefined ? unseenMessage : stateOf(row);
      const { state, transition } = rules.stepMessage(before, { status: subject.status, errorCode: subject.errorCode, at });
      let seq: number;
      if (row === undefined) seq = messages.add(account, subject.wamid, state, null, receivedAt);
      else {
        seq = row.seq;
        messages.revive(row);
        if (state !== before) messages.save(seq, state, receivedAt);
      }
      return {
        subject: messageSubject(seq),
        tracking: { ...facts, previousStatus: before.status, status: state.status, errorCode: state.errorCode, transition },
      };
    }
    if (subject.type === "run") {
      const row = runs.find(account, subject.runId);
      const facts = runFacts(row);
      const before = row === undefined ? unseenRun : runStateOf(row);
      const { state, transition } = rules.stepRun(before, { status: subject.status, error: subject.error, at });
      let seq: number;
      if (row === undefined) seq = runs.add(account, subject.runId, state, receivedAt);
      else {
        seq = row.seq;
        if (state !== before) runs.save(seq, state, receivedAt);
      }
      return {
        subject: runSubject(seq),
        tracking: { ...facts, previousStatus: before.status, status: state.status, errorCode: null, transition },
      };
    }
    return nothing;
  }
}

/** What registration recorded of a message or run, as far as routes see it. */
export function subjectFacts(subject: SubjectKey, messages: Messages, runs: Runs): Facts {
  const seq = Math.floor(subject / 2);
  return subject % 2 === 0 ? messageFacts(messages.get(seq)) : runFacts(runs.get(seq));
}

function messageFacts(row: MessageRow | undefined): Facts {
  const registered = row === undefined || row.registered_at === null ? null : row;
  return factsOf(
    "message",
    registered === null ? null : { id: registered.service_id, reference: registered.reference, metadata: registered.metadata },
  );
}

function runFacts(row: RunRow | undefined): Facts {
  const registered = row === undefined || row.registered_at === null ? null : row;
  return factsOf("run", registered === null ? null : { id: null, reference: registered.reference, metadata: registered.metadata });
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
  pending_at: number | null;
  sent_at: number | null;
  delivered_at: number | null;
  read_at: number | null;
  failed_at: number | null;
  received_at: number | null;
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

export function knownFacts(row: MessageRow): MessageFacts {
  return {
    id: row.service_id,
    reference: row.reference,
    conversationId: row.conversation_id,
    metadata: row.metadata,
    sentAt: row.told_sent_at,
  };
}

export function stateOf(row: MessageRow): MessageState {
  const times: Partial<Record<MessageStatus, number>> = {};
  if (row.pending_at !== null) times.pending = row.pending_at;
  if (row.sent_at !== null) times.sent = row.sent_at;
  if (row.delivered_at !== null) times.delivered = row.delivered_at;
  if (row.read_at !== null) times.read = row.read_at;
  if (row.failed_at !== null) times.failed = row.failed_at;
  if (row.received_at !== null) times.received = row.received_at;
  return { status: row.status, errorCode: row.error_code, times };
}

export type Messages = ReturnType<typeof createMessages>;

export function createMessages(db: Db) {
  const byWamid = db.prepare<[number, string], MessageRow>("SELECT * FROM messages WHERE account = ? AND wamid = ?");
  const bySeq = db.prepare<[number], MessageRow>("SELECT * FROM messages WHERE seq = ?");
  const insert = db.prepare(`
    INSERT INTO messages (account, wamid, service_id, reference, conversation_id, metadata, told_sent_at, registered_at, status, error_code,
      pending_at, sent_at, delivered_at, read_at, failed_at, received_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`);
  const update = db.prepare(`
    UPDATE messages SET status = ?, error_code = ?, pending_at = ?, sent_at = ?, delivered_at = ?, read_at = ?,
      failed_at = ?, received_at = ?, updated_at = ? WHERE seq = ?`);
  const register = db.prepare(`
    UPDATE messages SET service_id = ?, reference = ?, conversation_id = ?, metadata = ?, told_sent_at = ?,
      registered_at = coalesce(registered_at, ?), updated_at = ? WHERE seq = ?`);

  const found = db.prepare<[number]>("UPDATE messages SET missing = NULL WHERE seq = ?");
  const pollAgain = db.prepare<[number]>(
    "UPDATE asks SET next_at = since, rank = 0, asks = 0, failures = 0, misses = 0, asked_at = NULL WHERE message = ? AND next_at IS NULL",
  );

  function factsOf(r: Registration | null): (string | number | null)[] {
    return r === null ? [null, null, null, null, null, null] : [r.id, r.reference, r.conversationId, r.metadata, r.sentAt, r.at];
  }

  function times(state: MessageState): (number | null)[] {
    const t = state.times;
    return [t.pending ?? null, t.sent ?? null, t.delivered ?? null, t.read ?? null, t.failed ?? null, t.received ?? null];
  }

  return {
    find: (account: number, wamid: string): MessageRow | undefined => byWamid.get(account, wamid),
    get: (seq: number): MessageRow | undefined => bySeq.get(seq),
    /** Adds a message that was seen, registered or both. Returns its seq. */
    add(account: number, wamid: string, state: MessageState, registration: Registration | null, at: number): number {
      return Number(
        insert.run(account, wamid, ...factsOf(registration), state.status, state.errorCode, ...times(state), at).lastInsertRowid,
      );
    },
    save(seq: number, state: MessageState, at: number): void {
      update.run(state.status, state.errorCode, ...times(state), at, seq);
    },
    /** An event or a registration shows that a missing message exists: polling starts again. */
    revive(row: MessageRow): void {
      if (row.missing === null) return;
      found.run(row.seq);
      pollAgain.run(row.seq);
    },
    /** Replaces all facts of a message. Its first registration time stays. */
    register(seq: number, facts: Registration): void {
      register.run(...factsOf(facts), facts.at, seq);
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
  started_at: number | null;
  completed_at: number | null;
  failed_at: number | null;
  updated_at: number;
}

export function runStateOf(row: RunRow): RunState {
  const times: Partial<Record<RunStatus, number>> = {};
  if (row.started_at !== null) times.started = row.started_at;
  if (row.completed_at !== null) times.completed = row.completed_at;
  if (row.failed_at !== null) times.failed = row.failed_at;
  return { status: row.status, error: row.error, times };
}

export type Runs = ReturnType<typeof createRuns>;

export function createRuns(db: Db) {
  const byId = db.prepare<[number, string], RunRow>("SELECT * FROM runs WHERE account = ? AND run_id = ?");
  const bySeq = db.prepare<[number], RunRow>("SELECT * FROM runs WHERE seq = ?");
  const insert = db.prepare(`
    INSERT INTO runs (account, run_id, status, error, started_at, completed_at, failed_at, updated_at)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
  const update = db.prepare(`
    UPDATE runs SET status = ?, error = ?, started_at = ?, completed_at = ?, failed_at = ?, updated_at = ? WHERE seq = ?`);

  const register = db.prepare<[string, string | null, number, number, number]>(
    "UPDATE runs SET reference = ?, metadata = ?, registered_at = ?, updated_at = ? WHERE seq = ?",
  );

  function columns(state: RunState): (string | number | null)[] {
    const t = state.times;
    return [state.status, state.error, t.started ?? null, t.completed ?? null, t.failed ?? null];
  }

  return {
    find: (account: number, runId: string): RunRow | undefined => byId.get(account, runId),
    get: (seq: number): RunRow | undefined => bySeq.get(seq),
    add: (account: number, runId: string, state: RunState, at: number): number =>
      Number(insert.run(account, runId, ...columns(state), at).lastInsertRowid),
    save(seq: number, state: RunState, at: number): void {
      update.run(...columns(state), at, seq);
    },
    /** Registers a run. `metadata` is a JSON object, `at` unix ms. */
    register(seq: number, { reference, metadata, at }: { reference: string; metadata: string | null; at: number }): void {
      register.run(reference, metadata, at, at, seq);
    },
  };
}
