import type { Sessions } from "../../src/store/postgres/sessions.ts";
import { rows, type Work } from "../../src/store/sql/ops.ts";
import { sql } from "../../src/store/sql/sql.ts";
import { openSession, type Session } from "./postgres-session.ts";
import { until } from "./until.ts";

/** An advisory lock at which a command stops between two of its operations. */
const gateNumber = 7;

const gated =
  "SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND locktype = 'advisory' AND NOT granted";
const blocked =
  "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND cardinality(pg_blocking_pids(pid)) > 0 AND wait_event <> 'advisory'";

export async function closeGate(session: Session) {
  await session.rows("SELECT pg_advisory_lock($1)", [gateNumber]);
  return {
    reached: () =>
      until("the command waits at the gate", async () => (await session.number(gated)) > 0),
    open: () => session.rows("SELECT pg_advisory_unlock($1)", [gateNumber]),
  };
}

/** A command that stops before its commit until the gate opens. */
export function* held<T>(work: Work<T>): Work<T> {
  const result = yield* work;
  yield* passGate();
  return result;
}

export function* passGate(): Work<void> {
  yield* rows(sql`SELECT pg_advisory_xact_lock(${gateNumber})`);
}

/** Resolves once another command than that at the gate waits for a lock. */
export const anotherWaits = (session: Session): Promise<unknown> =>
  until("another command waits for a lock", async () => (await session.number(blocked)) > 0);

interface Shared {
  readonly url: string;
  sessions(): Pick<Sessions, "transact">;
}

/**
 * Runs a command up to before its commit, then `meanwhile`, and both to their ends once that waits.
 */
export async function during<T, U>(
  shared: Shared,
  first: () => Work<T>,
  meanwhile: () => Promise<U>,
): Promise<[T, U]> {
  await using observer = await openSession(shared.url);
  const gate = await closeGate(observer);
  const running = shared.sessions().transact(() => held(first()));
  await gate.reached();
  const second = meanwhile();
  await anotherWaits(observer);
  await gate.open();
  return [await running, await second];
}
