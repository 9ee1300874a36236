import type Database from "better-sqlite3";
import { listOf, quoted } from "../schema/ddl.ts";
import type { Table } from "../schema/table.ts";
import type { Look } from "../sql/ops.ts";

type Statement = Database.Statement<unknown[]>;
type Row = Readonly<Record<string, unknown>>;
type Known = "fails" | "stays";

/** Rows of one statement. Each call costs as much as five values, and each value 60 to 80 ns. */
const sizes = [64, 16, 4, 1] as const;
/** Most kept statements of a table's inserts. */
const mostShapes = 64;

/**
 * Inserts and look-ups of many rows in few statements. A list is the outer side of its join, so rows come in the order of their
 * keys.
 */
export function createGrouped(db: Database.Database) {
  const inserts = { fails: new Map<Table, Map<string, Statement>>(), stays: new Map<Table, Map<string, Statement>>() };
  const finds = new Map<Look, Map<number, Statement>>();
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
      for (let place = 1; isSame && place < rows.length; place += 1) isSame = (rows[place] as Row)[name] === value;
      shape += !isSame ? "v" : value === null ? "-" : "s";
      if (!isSame) varied.push(name);
      else if (value !== null) values.push(value);
    }
    for (const row of varied.length === 0 ? [] : rows) for (const name of varied) values.push(row[name]);
    const statements = under(inserts[known], table);
    if (statements.size > mostShapes) statements.clear();
    const statement = kept(statements, `${rows.length}${shape}`, () => prepare(insertText(table, known, shape, rows.length)));
    statement.run(...values);
  }

  return {
    insert(table: Table, known: Known, rows: readonly Row[]): void {
      for (const part of parts(rows)) insertSome(table, known, part);
    },
    find(look: Look, keys: readonly (readonly unknown[])[]): unknown[] {
      const mark = markOf(look);
      const statements = under(finds, look);
      const found: unknown[] = [];
      for (const part of mark === null ? keys.map((key) => [key]) : parts(keys)) {
        const statement = kept(statements, part.length, () => prepare(findText(look, part.length)));
        if (mark === null || part.length === 1) found.push(statement.get(...(part[0] as readonly unknown[])));
        else for (const row of statement.all(...part.flat()) as Row[]) found.push(row[mark] === null ? undefined : row);
      }
      return found;
    },
  };
}

function* parts<T>(list: readonly T[]): Generator<readonly T[]> {
  let from = 0;
  for (const size of sizes)
    for (; from + size <= list.length; from += size) yield size === list.length ? list : list.slice(from, from + size);
}

function under<K, L, V>(maps: Map<K, Map<L, V>>, key: K): Map<L, V> {
  return kept(maps, key, () => new Map());
}

function kept<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  let value = map.get(key);
  if (value === undefined) {
    value = make();
    map.set(key, value);
  }
  return value;
}

/** A column that shows whether a row was found. Null: a key may find several rows, so each is looked up alone. */
function markOf({ table, by, columns, order, where }: Look): string | null {
  const unique = [table.key, ...table.indexes.flatMap(({ on, isUnique }) => (isUnique === true ? [on] : []))];
  if (order !== null || where !== null || !unique.some((key) => key.every((name) => by.includes(name)))) return null;
  return columns.find((name) => table.columns[name]?.isNull === false) ?? null;
}

/** `+?`: see {@link render}. A column of a key keeps its index, because only the value's side is hidden. */
function findText({ table, by, columns, order, where }: Look, count: number): string {
  if (count === 1) {
    const only = where === null ? "" : ` AND ${where}`;
    const ordered = order === null ? "" : ` ORDER BY ${quoted(order)}`;
    const own = by.map((name) => `${quoted(name)} = +?`).join(" AND ");
    return `SELECT ${listOf(columns)} FROM ${table.name} WHERE ${own}${only}${ordered} LIMIT 1`;
  }
  const own = by.map((name, place) => `o.${quoted(name)} = +k.column${place + 1}`).join(" AND ");
  const list = columns.map((name) => `o.${quoted(name)}`).join(", ");
  return `SELECT ${list} FROM (VALUES ${rowsText(by.length, count)}) k LEFT JOIN ${table.name} o ON ${own}`;
}

function insertText(table: Table, known: Known, shape: string, count: number): string {
  const names = table.names.filter((_, place) => shape[place] !== "-");
  const into = `INSERT INTO ${table.name} (${listOf(names)})`;
  const ending = known === "stays" ? " ON CONFLICT DO NOTHING" : "";
  if (!shape.includes("v")) return `${into} VALUES (${names.map(() => "?").join(", ")})${ending}`;
  let [shared, varied] = [0, 0];
  const list = [...shape].flatMap((letter) => (letter === "-" ? [] : letter === "s" ? `s.c${++shared}` : `v.column${++varied}`));
  const once = Array.from({ length: shared }, (_, place) => `? AS c${place + 1}`).join(", ");
  const from = `${shared === 0 ? "" : `(SELECT ${once}) s, `}(VALUES ${rowsText(varied, count)}) v`;
  // Without WHERE, SQLite would read ON CONFLICT as the condition of a join.
  return `${into} SELECT ${list.join(", ")} FROM ${from} WHERE TRUE${ending}`;
}

function rowsText(columns: number, count: number): string {
  const row = `(${new Array(columns).fill("?").join(", ")})`;
  return new Array(count).fill(row).join(", ");
}
