import type Database from "better-sqlite3";
import { kept } from "../../model/maps.ts";
import { listOf, quoted } from "../schema/ddl.ts";
import type { Table } from "../schema/tables.ts";
import {
  type Change,
  type Look,
  type Op,
  type Removal,
  type Sums,
  summedText,
  type Work,
} from "../sql/ops.ts";
import { render } from "../sql/sql.ts";

type Statement = Database.Statement<unknown[]>;
type Row = Readonly<Record<string, unknown>>;

export type SqliteRunner = ReturnType<typeof createSqliteRunner>;

/** Executes commands at once, so that nothing runs between two operations of a command. */
export function createSqliteRunner(db: Database.Database) {
  const statements = new Map<string, Statement>();
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
        const statement = kept(statements, text, () => db.prepare(text));
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
        return change(op.change, () => updateText(op.change), op.rows);
      case "remove":
        return change(
          op.removal,
          () => `DELETE FROM ${op.removal.table.name} WHERE ${whereText(op.removal.by)}`,
          op.rows,
        );
      case "add": {
        const { table } = op.sums;
        const statement = kept(statements, `add ${table.name}`, () => db.prepare(addText(op.sums)));
        for (const row of op.rows) statement.run(valuesOf(row as Row, table.names));
        return undefined;
      }
      case "numbers":
        return Array.from({ length: op.count }, () => nextOf(op.table));
    }
  }

  function change(
    { name, names }: Removal,
    text: () => string,
    rows: readonly object[],
  ): boolean[] {
    const statement = kept(statements, name, () => db.prepare(text()));
    return rows.map((row) => statement.run(valuesOf(row as Row, names)).changes > 0);
  }

  function nextOf(table: Table): number {
    const before =
      last.get(table) ??
      (db.prepare(`SELECT max(seq) FROM ${table.name}`).pluck().get() as number | null) ??
      0;
    last.set(table, before + 1);
    return before + 1;
  }

  function now<T>(work: Work<T>): T {
    let step = work.next();
    while (step.done !== true) step = work.next(run(step.value));
    return step.value;
  }

  return {
    run,
    /** Outside of a transaction of its own: a read, or a part of a larger transaction. */
    now,
    /**
     * Reads in one transaction. Without one, each statement takes and releases the locks of the
     * file: six system calls.
     */
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
    changed: (): number => changed.get() ?? 0,
    /**
     * The greatest number that this connection gave a row of a table with `seq`; null: none since
     * the last rollback.
     */
    newest: (table: Table): number | null => last.get(table) ?? null,
    /** Throws what the command throws; the file is then as before. */
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

/**
 * `+?`: see {@link render}. A column of a key keeps its index, because only the value's side is
 * hidden.
 */
const whereText = (names: readonly string[]): string =>
  names.map((name) => `${quoted(name)} = +?`).join(" AND ");

function updateText({ table, set, add, count, by }: Change): string {
  const parts = [
    ...set.map((name) => `${quoted(name)} = ?`),
    ...add.map((name) => `${quoted(name)} = ${quoted(name)} + ?`),
    ...count.map((name) => `${quoted(name)} = ${quoted(name)} + 1`),
  ];
  return `UPDATE ${table.name} SET ${parts.join(", ")} WHERE ${whereText(by)}`;
}

function addText(sums: Sums): string {
  const { name, names } = sums.table;
  return `INSERT INTO ${name} (${listOf(names)}) VALUES (${names.map(() => "?").join(", ")}) ${summedText(sums, "max", "min")}`;
}

type Known = "fails" | "stays";

/** Rows of one statement. Each call costs as much as five values, and each value 60 to 80 ns. */
const sizes = [64, 16, 4, 1] as const;
const mostShapes = 64;

/**
 * Inserts and look-ups of many rows in few statements. A list is the outer side of its join, so
 * rows come in the order of their keys.
 */
function createGrouped(db: Database.Database) {
  const inserts = {
    fails: new Map<Table, Map<string, Statement>>(),
    stays: new Map<Table, Map<string, Statement>>(),
  };
  const finds = new Map<string, Map<number, Statement>>();
  const prepare = (text: string): Statement => db.prepare(text);

  /** A column with one value in all rows is sent once, and one that is null in all is left out. */
  function insertSome(table: Table, known: Known, rows: readonly Row[]): void {
    const first = rows[0] as Row;
    const values: unknown[] = [];
    const varied: string[] = [];
    let shape = "";
    for (const name of table.names) {
      const value = first[name];
      let isSame = true;
      for (let place = 1; isSame && place < rows.length; place += 1)
        isSame = (rows[place] as Row)[name] === value;
      shape += !isSame ? "v" : value === null ? "-" : "s";
      if (!isSame) varied.push(name);
      else if (value !== null) values.push(value);
    }
    for (const row of varied.length === 0 ? [] : rows)
      for (const name of varied) values.push(row[name]);
    const statements = kept(inserts[known], table, () => new Map<string, Statement>());
    if (statements.size > mostShapes) statements.clear();
    const statement = kept(statements, `${rows.length}${shape}`, () =>
      prepare(insertText(table, known, shape, rows.length)),
    );
    statement.run(...values);
  }

  return {
    insert(table: Table, known: Known, rows: readonly Row[]): void {
      for (const part of parts(rows)) insertSome(table, known, part);
    },
    find(look: Look, keys: readonly (readonly unknown[])[]): unknown[] {
      const mark = markOf(look);
      const statements = kept(finds, look.name, () => new Map<number, Statement>());
      const found: unknown[] = [];
      for (const part of mark === null ? keys.map((key) => [key]) : parts(keys)) {
        const statement = kept(statements, part.length, () => prepare(findText(look, part.length)));
        if (mark === null || part.length === 1)
          found.push(statement.get(...(part[0] as readonly unknown[])));
        else
          for (const row of statement.all(...part.flat()) as Row[])
            found.push(row[mark] === null ? undefined : row);
      }
      return found;
    },
  };
}

function* parts<T>(list: readonly T[]): Generator<readonly T[]> {
  let from = 0;
  for (const size of sizes)
    for (; from + size <= list.length; from += size)
      yield size === list.length ? list : list.slice(from, from + size);
}

/**
 * A column that shows whether a row was found. Null: a key may find several rows, so each is looked
 * up alone.
 */
function markOf({ table, by, columns, order, where }: Look): string | null {
  const unique = table.indexes
    .filter((index) => index.isUnique === true && (index.where ?? null) === where)
    .map(({ on }) => on);
  if (where === null) unique.push(table.key);
  if (order !== null || !unique.some((key) => key.every((name) => by.includes(name)))) return null;
  return columns.find((name) => table.columns[name]?.isNull === false) ?? null;
}

function findText({ table, by, columns, order, where }: Look, count: number): string {
  if (count === 1) {
    const only = where === null ? "" : ` AND ${where}`;
    const ordered = order === null ? "" : ` ORDER BY ${quoted(order)}`;
    return `SELECT ${listOf(columns)} FROM ${table.name} WHERE ${whereText(by)}${only}${ordered} LIMIT 1`;
  }
  const keys = by.map((name, place) => `o.${quoted(name)} = +k.column${place + 1}`);
  const own = [...keys, ...(where === null ? [] : [`o.${where}`])].join(" AND ");
  const list = columns.map((name) => `o.${quoted(name)}`).join(", ");
  return `SELECT ${list} FROM (VALUES ${rowsText(by.length, count)}) k LEFT JOIN ${table.name} o ON ${own}`;
}

function insertText(table: Table, known: Known, shape: string, count: number): string {
  const names = table.names.filter((_, place) => shape[place] !== "-");
  const into = `INSERT INTO ${table.name} (${listOf(names)})`;
  const ending = known === "stays" ? " ON CONFLICT DO NOTHING" : "";
  if (!shape.includes("v")) return `${into} VALUES (${names.map(() => "?").join(", ")})${ending}`;
  let [shared, varied] = [0, 0];
  const list = [...shape].flatMap((letter) =>
    letter === "-" ? [] : letter === "s" ? `s.c${++shared}` : `v.column${++varied}`,
  );
  const once = Array.from({ length: shared }, (_, place) => `? AS c${place + 1}`).join(", ");
  const from = `${shared === 0 ? "" : `(SELECT ${once}) s, `}(VALUES ${rowsText(varied, count)}) v`;
  // Without WHERE, SQLite would read ON CONFLICT as the condition of a join.
  return `${into} SELECT ${list.join(", ")} FROM ${from} WHERE TRUE${ending}`;
}

function rowsText(columns: number, count: number): string {
  const row = `(${new Array(columns).fill("?").join(", ")})`;
  return new Array(count).fill(row).join(", ");
}
