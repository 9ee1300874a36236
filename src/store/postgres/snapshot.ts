import type { Work } from "../sql/ops.ts";
import type { Session } from "./connect.ts";
import { createPostgresRunner } from "./runner.ts";

const begin = { name: "beginSnapshot", text: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", values: [] };
const commit = { name: "commit", text: "COMMIT", values: [] };
const rollback = { name: "rollback", text: "ROLLBACK", values: [] };

/** Runs a long read on a free session. All its statements see what was committed when the first one began. */
export async function inSnapshot<T>(session: Session, work: Work<T>): Promise<T> {
  await session.query(begin);
  try {
    const result = await createPostgresRunner(session)(work);
    await session.query(commit);
    return result;
  } catch (error) {
    await session.query(rollback).catch(() => session.end());
    throw error;
  }
}
