import { type Index, type Table, tables } from "./tables.ts";

export type Engine = "sqlite" | "postgres";

export const schemaVersion = 2;

export const ddl = (engine: Engine): string[] => tables.flatMap((table) => ddlOf(table, engine));

function ddlOf(table: Table, engine: Engine): string[] {
  const columns = Object.entries(table.columns).map(([name, kind]) => {
    const type = kind[engine];
    return `${quoted(name)} ${type}${kind.isNull ? "" : " NOT NULL"}`;
  });
  const body = [...columns, `PRIMARY KEY (${listOf(table.key)})`].join(",\n  ");
  const options =
    engine === "sqlite"
      ? isNumbered(table)
        ? "STRICT"
        : "STRICT, WITHOUT ROWID"
      : `WITH (fillfactor = ${table.fillfactor}, ${vacuumed})`;
  const sequence =
    engine === "postgres" && isNumbered(table) ? [`CREATE SEQUENCE ${table.name}_seq`] : [];
  return [
    `CREATE TABLE ${table.name} (\n  ${body}\n) ${options}`.trim(),
    ...sequence,
    ...table.indexes.map((index) => indexOf(table, index, engine)),
  ];
}

export function isNumbered({ key }: Pick<Table, "key">): boolean {
  return key.length === 1 && key[0] === "seq";
}

export const quoted = (name: string): string => `"${name}"`;
export const literals = (texts: readonly string[]): string =>
  texts.map((one) => `'${one}'`).join(", ");
export const listOf = (names: readonly string[]): string => names.map(quoted).join(", ");

/** SQLite ends each entry of an index with the row's `seq`. */
function indexOf(
  table: Table,
  { name, on, isUnique = false, where }: Index,
  engine: Engine,
): string {
  const filter = where === undefined ? "" : ` WHERE ${where}`;
  const columns =
    engine === "sqlite" && isNumbered(table) && on.at(-1) === "seq" ? on.slice(0, -1) : on;
  return `CREATE ${isUnique ? "UNIQUE " : ""}INDEX ${name} ON ${table.name} (${listOf(columns)})${filter}`;
}

/** A large table is vacuumed as often as a small one. */
const vacuumed = "autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 5000";
