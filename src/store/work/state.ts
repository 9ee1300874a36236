import { state } from "../schema/tables.ts";
import { ask, find, look, rows, type Work } from "../sql/ops.ts";
import { raw, type Sql, sql } from "../sql/sql.ts";

const ownState = look(state, ["key"], ["value"], { lock: "update" });
const sharedState = look(state, ["key"], ["value"], { lock: "share" });
const seenState = look(state, ["key"], ["value"]);

/**
 * Null where there is none. `share` keeps others from changing the values, `update` from reading
 * them with a lock. Sort the keys.
 */
export function* values<S>(
  keys: readonly string[],
  lock: "share" | "update" | null = null,
): Work<(S | null)[]> {
  const rowsOf = lock === null ? seenState : lock === "share" ? sharedState : ownState;
  const found = yield* ask(find(rowsOf, keys, (key) => [key]));
  return found.map((row) => (row === undefined ? null : (JSON.parse(row.value) as S)));
}

export function* value<S>(key: string, lock: "share" | "update" | null = null): Work<S | null> {
  const [found = null] = yield* values<S>([key], lock);
  return found;
}

/** Null removes it. It may go after `until`. */
export function* put(key: string, value: unknown, until: number | null = null): Work<void> {
  if (value === null) {
    yield* rows(sql`DELETE FROM state WHERE key = ${key}`);
    return;
  }
  yield* rows(sql`${inserted(key, value, sql`${until}`)} ${replaced}`);
}

const inserted = (key: string, value: unknown, until: Sql): Sql =>
  sql`INSERT INTO state (key, value, version, until) VALUES (${key}, ${JSON.stringify(value)}, 1, ${until})`;
const replaced = raw(
  "ON CONFLICT (key) DO UPDATE SET value = excluded.value, version = state.version + 1, until = excluded.until",
);

export function* take<S>(key: string): Work<S | null> {
  const [removed] = yield* rows(
    sql<{ readonly value: string }>`DELETE FROM state WHERE key = ${key} RETURNING value`,
  );
  return removed === undefined ? null : (JSON.parse(removed.value) as S);
}

/** Of two that do it at once, one fails, and its transaction is repeated. */
export function* create(key: string, value: unknown, until: number | null = null): Work<void> {
  yield* rows(inserted(key, value, sql`${until}`));
}

export function* createMissing(key: string, value: unknown, until: number): Work<boolean> {
  return (
    (yield* rows(sql`${inserted(key, value, sql`${until}`)} ON CONFLICT DO NOTHING RETURNING key`))
      .length > 0
  );
}

/** `prefix` ends in a slash. The first may have the name `from`. */
export function* list<S>(
  prefix: string,
  from = "",
): Work<{ readonly name: string; readonly value: S }[]> {
  const end = `${prefix.slice(0, -1)}0`;
  const found = yield* rows(
    sql<{
      key: string;
      value: string;
    }>`SELECT s.key, s.value FROM state s WHERE s.key >= ${prefix + from} AND s.key < ${end} ORDER BY s.key`,
  );
  return found.map(({ key, value }) => ({
    name: key.slice(prefix.length),
    value: JSON.parse(value) as S,
  }));
}

export function* byName<S>(prefix: string): Work<ReadonlyMap<string, S>> {
  return new Map((yield* list<S>(prefix)).map(({ name, value }) => [name, value]));
}

export function* allOf<S>(prefix: string): Work<readonly S[]> {
  return (yield* list<S>(prefix)).map(({ value }) => value);
}

/** Unix ms of the database's clock, because the clocks of processes differ. */
export const databaseNow = raw(
  "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
  "(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
);

export function* readNow(): Work<number> {
  const [found] = yield* rows(sql<{ readonly now: number }>`SELECT ${databaseNow} AS now`);
  return found?.now ?? 0;
}

/** False: another holds it. */
export function* hold(key: string, holder: string, forMs: number): Work<boolean> {
  const held = yield* rows(
    sql`${inserted(key, holder, sql`${databaseNow} + ${forMs}`)} ${replaced} WHERE state.value = excluded.value OR state.until <= ${databaseNow} RETURNING key`,
  );
  return held.length > 0;
}

export function* isHeld(key: string): Work<boolean> {
  return (
    (yield* rows(sql`SELECT 1 FROM state s WHERE s.key = ${key} AND s.until > ${databaseNow}`))
      .length > 0
  );
}

export function* addTo<S extends Readonly<Record<string, number>>>(
  key: string,
  more: S,
  until: number,
): Work<void> {
  const [known = null] = yield* values<S>([key], "update");
  if (known === null) yield* create(key, more, until);
  else {
    const sums = Object.entries(more).map(([name, n]) => [name, n + (known[name] ?? 0)]);
    yield* put(key, Object.fromEntries(sums), until);
  }
}

/** Its order as text is that of time. */
export const timeName = (at: number): string => String(Math.max(0, at)).padStart(15, "0");
