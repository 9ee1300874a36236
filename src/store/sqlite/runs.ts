import type { RunStatus } from "../../event/statuses.ts";
import type { RunState } from "../../event/tracking.ts";
import type { Db } from "./open.ts";

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
    /** Makes it the user's; `metadata` is a JSON object, `at` unix ms. */
    register(seq: number, { reference, metadata, at }: { reference: string; metadata: string | null; at: number }): void {
      register.run(reference, metadata, at, at, seq);
    },
  };
}
