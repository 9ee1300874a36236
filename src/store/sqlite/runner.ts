import type Database from "better-sqlite3";
import { listOf, literals, quoted } from "../schema/ddl.ts";
import type { Table } from "../schema/table.ts";
import type { Change, Op, Removal, Sums, Work } from "../sql/ops.ts";
import { render } from "../sql/sql.ts";
import { createGrouped } from "./grouped.ts";

type Statement = Database.Statement<unknown[]>;
type Row = Readonly<Record<string, unknown>>;

export type SqliteRunner = ReturnType<typeof createSqliteRunner>;

/** Executes commands at once, so that nothing runs between two operations of a command. */
export function createSqliteRunner(db: Database.Database) {
  const statements = new Map<string, Statement>();
  const changes = new Map<Change | Removal, { readonly statement: Statement; readonly names: readonly string[] }>();
  const grouped = createGrouped(db);
  /** The last number of each table with `seq`. After a rollback it is read again. */
  let last = new Map<Table, number>();
  const begin = { read: db.prepare("BEGIN"), write: db.prepare("BEGIN IMMEDIATE") };
  const changed = db.prepare<[], number>("SELECT total_changes()").pluck();
  const commit = db.prepare("COMMIT");
  const rollback = db.prepare("ROLLBACK");

  function run(op: Op): unknown {
    switch (op.op) {
      case "together":
        return op.ops.map(run);
      case "query": {
        const { text, values } = render(op.query, "sqlite");
        const statement = kept(statements, text, () => text);
        return statement.reader ? statement.all(values) : statement.run(values).changes;
      }
      case "find": {
        const found = grouped.find(op.look, op.keys);
        const { numbers } = op;
        return numbers === null ? found : found.map((row) => row ?? nextOf(numbers));
      }
      case "insert":
        return grouped.insert(op.table, op.known, op.rows as readonly Row[]);
      case "lock":
        return undefined;
      case "update":
        return change(op.change, () => updateText(op.change), [...op.change.set, ...op.change.add, ...op.change.by], op.rows);
      case "remove":
        return change(op.removal, () => `DELETE FROM ${op.removal.table.name} WHERE ${whereText(op.removal.by)}`, op.removal.by, op.rows);
      case "add": {
        const { table } = op.sums;
        const statement = kept(statements, `add ${table.name}`, () => addText(op.sums));
        for (const row of op.rows) statement.run(valuesOf(row as Row, table.names));
        return undefined;
      }
      case "numbers":
        return Array.from({ length: op.count }, () => nextOf(op.table));
    }
  }

  /** For each row, whether it changed one. */
  function change(key: Change | Removal, text: () => string, names: readonly string[], rows: readonly object[]): boolean[] {
    let known = changes.get(key);
    if (known === undefined) {
      known = { statement: db.prepare(text()), names };
      changes.set(key, known);
    }
    const { statement, names: order } = known;
    return rows.map((row) => statement.run(valuesOf(row as Row, order)).changes > 0);
  }

  function kept<K>(map: Map<K, Statement>, key: K, text: () => string): Statement {
    let statement = map.get(key);
    if (statement === undefined) {
      statement = db.prepare(text());
      map.set(key, statement);
    }
    return statement;
  }

  function nextOf(table: Table): number {
    const before = last.get(table) ?? (db.prepare(`SELECT max(seq) FROM ${table.name}`).pluck().get() as number | null) ?? 0;
    last.set(table, before + 1);
    return before + 1;
  }

  function now<T>(work: Work<T>): T {
    let step = work.next();
    while (step.done !== true) step = work.next(run(step.value));
    return step.value;
  }

  return {
    /** One operation. */
    run,
    /** Outside of a transaction of its own: a read, or a part of a larger transaction. */
    now,
    /** Reads in one transaction. Without one, each statement takes and releases the locks of the file: six system calls. */
    read<T>(work: Work<T>): T {
      if (db.inTransaction) return now(work);
      begin.read.run();
      try {
        return now(work);
      } finally {
        // After some errors SQLite has already rolled back.
        if (db.inTransaction) commit.run();
      }
    },
    /** How many rows this connection changed so far. */
    changed: (): number => changed.get() ?? 0,
    /** The greatest number that this connection gave a row of a table with `seq`; null: none since the last rollback. */
    newest: (table: Table): number | null => last.get(table) ?? null,
    /** One transaction. Throws what the command throws; the file is then as before. */
    transact<T>(work: Work<T>): T {
      begin.write.run();
      try {
        const result = now(work);
        commit.run();
        return result;
      } catch (error) {
        // After some errors (disk full, I/O) SQLite has already rolled back.
        if (db.inTransaction) rollback.run();
        last = new Map();
        throw error;
      }
    },
  };
}

function valuesOf(row: Row, names: readonly string[]): unknown[] {
  const values: unknown[] = new Array(names.length);
  for (let index = 0; index < names.length; index += 1) values[index] = row[names[index] as string];
  return values;
}

/** `+?`: see {@link render}. A column of a key keeps its index, because only the value's side is hidden. */
const whereText = (names: readonly string[]): string => names.map((name) => `${quoted(name)} = +?`).join(" AND ");

function updateText({ table, set, add, count, by }: Change): string {
  const parts = [
    ...set.map((name) => `${quoted(name)} = ?`),
    ...add.map((name) => `${quoted(name)} = ${quoted(name)} + ?`),
    ...count.map((name) => `${quoted(name)} = ${quoted(name)} + 1`),
  ];
  return `UPDATE ${table.name} SET ${parts.join(", ")} WHERE ${whereText(by)}`;
}

function addText({ table: { name, names, key }, max, min }: Sums): string {
  return `INSERT INTO ${name} (${listOf(names)}) VALUES (${names.map(() => "?").join(", ")})
    ON CONFLICT (${listOf(key)}) DO UPDATE SET n = CASE
      WHEN series IN (${literals(max)}) THEN max(n, excluded.n)
      WHEN series IN (${literals(min)}) THEN min(n, excluded.n)
      ELSE n + excluded.n END`;
}
