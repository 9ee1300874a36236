import type { Engine } from "../schema/ddl.ts";
import type { ColumnOf, Kind, Table } from "../schema/tables.ts";

type Value = number | string | Buffer | null | readonly number[] | readonly string[] | Raw;

interface Raw {
  readonly raw: Readonly<Record<Engine, string>>;
}

export interface Sql<Row = unknown> {
  readonly texts: readonly string[];
  readonly values: readonly Value[];
  /** Only for the compiler. */
  readonly row?: Row;
}

type Part = Sql | Value | undefined;

/** Parts are values, or other SQL. One that is undefined is left out. */
export function sql<Row = unknown>(
  texts: TemplateStringsArray,
  ...parts: readonly Part[]
): Sql<Row> {
  const all: string[] = [texts[0] ?? ""];
  const values: Value[] = [];
  for (const [index, part] of parts.entries()) {
    if (isSql(part)) {
      all.push(`${all.pop()}${part.texts[0]}`, ...part.texts.slice(1));
      values.push(...part.values);
    } else if (part !== undefined) {
      all.push("");
      values.push(part);
    }
    all.push(`${all.pop()}${texts[index + 1]}`);
  }
  return { texts: all, values };
}

const isSql = (part: Part): part is Sql =>
  typeof part === "object" && part !== null && "texts" in part;

/** It is not escaped. */
export const raw = (sqlite: string, postgres = sqlite): Sql => ({
  texts: ["", ""],
  values: [{ raw: { sqlite, postgres } }],
});

/** SQLite must use this index, or fails. PostgreSQL chooses by itself. */
export const indexedBy = (index: string): Sql => raw(`INDEXED BY ${index}`, "");

/** Those that are undefined are left out. */
export function allOf(...conditions: readonly (Sql | undefined)[]): Sql {
  const given = conditions.filter((condition) => condition !== undefined);
  return given.length === 0
    ? sql`TRUE`
    : given.reduce((sum, condition) => sql`${sum} AND ${condition}`);
}

/**
 * SQLite reads `+?` for a value: a statement whose plan may depend on one would be compiled at each
 * call. On PostgreSQL `IN` a list is `= ANY`, because a list of rows could be joined as a table.
 */
export function render({ texts, values }: Sql, engine: Engine) {
  let text = texts[0] ?? "";
  const given: unknown[] = [];
  for (const [index, value] of values.entries()) {
    if (typeof value === "object" && value !== null && "raw" in value) text += value.raw[engine];
    else if (Array.isArray(value)) {
      given.push(engine === "sqlite" ? JSON.stringify(value) : value);
      const type = typeof value[0] === "string" ? "text" : "bigint";
      if (engine === "sqlite") text += "(SELECT value FROM json_each(?))";
      else if (text.endsWith(" IN "))
        text = `${text.slice(0, -3)}= ANY ($${given.length}::${type}[])`;
      else text += `(SELECT unnest($${given.length}::${type}[]))`;
    } else {
      given.push(value);
      text += engine === "sqlite" ? "+?" : `$${given.length}`;
    }
    text += texts[index + 1];
  }
  return { text, values: given };
}

type Column<V> = Sql & { readonly column?: V };
type ColumnsOf<T extends Table> = {
  readonly [K in ColumnOf<T>]: Column<T["columns"][K] extends Kind<infer V> ? V : never>;
};

export function as<T extends Table>(table: T, alias: string): ColumnsOf<T> {
  return Object.fromEntries(
    table.names.map((name) => [name, raw(`${alias}."${name}"`)]),
  ) as unknown as ColumnsOf<T>;
}

export function pick<C extends Readonly<Record<string, Sql>>, const N extends keyof C & string>(
  columns: C,
  ...names: readonly N[]
): Pick<C, N> {
  return Object.fromEntries(names.map((name) => [name, columns[name]])) as Pick<C, N>;
}

export const typed = <V>(part: Sql): Column<V> => part;

export const hexOf = (part: Sql): Column<string> =>
  sql`${raw("lower(hex(", "encode(")}${part}${raw("))", ", 'hex')")}`;

type Selected<L> = {
  -readonly [K in keyof L]: L[K] extends Column<infer V> ? Exclude<V, undefined> : never;
};

/** A row of what {@link select} or `look` made. */
export type RowFrom<S> = S extends (...parts: never[]) => Sql<infer Row>
  ? Row
  : S extends { readonly row?: infer Row }
    ? NonNullable<Row>
    : never;

/** `` select({ seq: e.seq })`FROM …` `` has rows of `{ seq: number }`. */
export function select<const L extends Readonly<Record<string, Sql>>>(
  list: L,
): (texts: TemplateStringsArray, ...parts: readonly Part[]) => Sql<Selected<L>> {
  const columns = Object.entries(list)
    .map(([name, part]) => sql`${part} AS ${raw(`"${name}"`)}`)
    .reduce((sum, column) => sql`${sum}, ${column}`);
  return (texts, ...parts) => sql`SELECT ${columns} ${sql(texts, ...parts)}` as Sql<Selected<L>>;
}

/** One look at an index for each route. `from`: a table and a condition. */
export function routesOf(from: Sql): Sql<{ readonly route: string }> {
  const next = (after?: Sql) => sql`(SELECT route FROM ${from} ${after} ORDER BY route LIMIT 1)`;
  return sql`WITH RECURSIVE r(route) AS (SELECT ${next()} UNION ALL SELECT ${next(sql`AND route > r.route`)} FROM r WHERE r.route IS NOT NULL)
    SELECT route FROM r WHERE route IS NOT NULL`;
}
