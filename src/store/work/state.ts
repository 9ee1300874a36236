import { state } from "../schema/tables.ts";
import { ask, find, look, rows, type Work } from "../sql/ops.ts";
import { sql } from "../sql/sql.ts";

/** Small shared values, each a row of JSON under its own key. */
const ownState = look(state, ["key"], ["value"], { lock: "update" });
const sharedState = look(state, ["key"], ["value"], { lock: "share" });
const seenState = look(state, ["key"], ["value"]);

/**
 * The values under some keys, null where there is none. `share` keeps others from changing them until the end of the
 * transaction, `update` from reading them with a lock. Sort the keys.
 */
export function* values<S>(keys: readonly string[], lock: "share" | "update" | null = null): Work<(S | null)[]> {
  const rowsOf = lock === null ? seenState : lock === "share" ? sharedState : ownState;
  const found = yield* ask(
    find(
      rowsOf,
      keys.map((key) => [key]),
    ),
  );
  return found.map((row) => (row === undefined ? null : (JSON.parse(row.value) as S)));
}

/** Stores a value, or removes it with null. `until`: unix ms after which it may go. */
export function* put(key: string, value: unknown, until: number | null = null): Work<void> {
  if (value === null) {
    yield* rows(sql`DELETE FROM state WHERE key = ${key}`);
    return;
  }
  yield* rows(
    sql`INSERT INTO state (key, value, version, until) VALUES (${key}, ${JSON.stringify(value)}, 1, ${until})
      ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = state.version + 1, until = excluded.until`,
  );
}

/** Removes a value and returns it; null: there was none. */
export function* take<S>(key: string): Work<S | null> {
  const [removed] = yield* rows(sql<{ readonly value: string }>`DELETE FROM state WHERE key = ${key} RETURNING value`);
  return removed === undefined ? null : (JSON.parse(removed.value) as S);
}

/** Stores the first value under a key. Of two that do it at once, one fails, and its transaction is repeated. */
export function* create(key: string, value: unknown): Work<void> {
  yield* rows(sql`INSERT INTO state (key, value, version, until) VALUES (${key}, ${JSON.stringify(value)}, 1, ${null})`);
}
