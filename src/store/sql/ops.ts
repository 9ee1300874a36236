import type { MaybePromise } from "../../model/maybe-promise.ts";
import { listOf, literals } from "../schema/ddl.ts";
import type { ColumnOf, RowOf, Table } from "../schema/tables.ts";
import type { Sql } from "./sql.ts";

/**
 * A command is a generator that yields these. A runner executes them, at once on SQLite and
 * pipelined on PostgreSQL.
 */
export type Op =
  | { readonly op: "query"; readonly query: Sql }
  | {
      readonly op: "find";
      readonly look: Look;
      readonly keys: readonly Key[];
      readonly numbers: Table | null;
    }
  | {
      readonly op: "insert";
      readonly table: Table;
      readonly rows: readonly object[];
      readonly known: "fails" | "stays";
    }
  | { readonly op: "lock"; readonly look: Look; readonly keys: readonly Key[] }
  | {
      readonly op: "update";
      readonly change: Change;
      readonly rows: readonly object[];
      readonly asks: boolean;
    }
  | { readonly op: "remove"; readonly removal: Removal; readonly rows: readonly object[] }
  | { readonly op: "add"; readonly sums: Sums; readonly rows: readonly object[] }
  | { readonly op: "numbers"; readonly table: Table; readonly count: number }
  | { readonly op: "together"; readonly ops: readonly Op[] };

// biome-ignore lint/suspicious/noExplicitAny: what is sent in has the type of the operation that was yielded.
export type Work<T> = Generator<Op, T, any>;

type Key = readonly unknown[];

/** Rows are found by `by`; of several, the first by `order`. */
export interface Look {
  readonly name: string;
  readonly table: Table;
  readonly by: readonly string[];
  readonly columns: readonly string[];
  readonly order: string | null;
  readonly lock: Lock | null;
  readonly where: string | null;
}

/**
 * Until the end of the transaction. `share` waits for writers, `update` also for readers that hold
 * a share.
 */
type Lock = "share" | "update";

export interface Change extends Removal {
  readonly set: readonly string[];
  readonly add: readonly string[];
  readonly count: readonly string[];
}

export interface Removal {
  readonly name: string;
  readonly table: Table;
  /** The table's key at least. */
  readonly by: readonly string[];
  /** The values of a row, in this order. */
  readonly names: readonly string[];
  /** Otherwise PostgreSQL locks the rows in their order. */
  readonly isLocked: boolean;
}

/** Counters of some series keep the greater or smaller `n`; the others are summed up. */
export interface Sums {
  readonly table: Table;
  readonly max: readonly string[];
  readonly min: readonly string[];
}

type Typed<R> = Op & { readonly result?: R };
type TypedLook<R> = Look & { readonly row?: R };

interface LookParts<T extends Table> {
  readonly order?: ColumnOf<T> | null;
  readonly lock?: Lock | null;
  readonly where?: string | null;
}

/** Declare it once: its name identifies the statement. */
export function look<T extends Table, const C extends ColumnOf<T>>(
  table: T,
  by: readonly ColumnOf<T>[],
  columns: readonly C[],
  { order = null, lock = null, where = null }: LookParts<T> = {},
): TypedLook<Pick<RowOf<T>, C>> {
  const name = [
    "find",
    table.name,
    ...by,
    "of",
    ...columns,
    order ?? "",
    lock ?? "",
    where ?? "",
  ].join("_");
  return { name, table, by, columns, order, lock, where };
}

interface RemovalParts<T extends Table, L extends boolean> {
  /** Columns that must have the row's values, or the stored row stays. */
  readonly only?: readonly ColumnOf<T>[];
  readonly isLocked?: L;
}

interface ChangeParts<T extends Table, L extends boolean> extends RemovalParts<T, L> {
  readonly add?: readonly ColumnOf<T>[];
  readonly count?: readonly ColumnOf<T>[];
}

export function change<T extends Table, const L extends boolean = false>(
  table: T,
  set: readonly ColumnOf<T>[],
  { add = [], count = [], only = [], isLocked = false as L }: ChangeParts<T, L> = {},
): Change & { readonly isLocked: L } {
  const name = [
    "update",
    table.name,
    ...set,
    "add",
    ...add,
    "count",
    ...count,
    "only",
    ...only,
    String(isLocked),
  ].join("_");
  const by = [...table.key, ...only];
  return { name, table, by, names: [...set, ...add, ...by], set, add, count, isLocked };
}

export function removal<T extends Table>(
  table: T,
  { only = [], isLocked = false }: RemovalParts<T, boolean> = {},
): Removal {
  const by = [...table.key, ...only];
  return {
    name: ["remove", table.name, ...only, String(isLocked)].join("_"),
    table,
    by,
    names: by,
    isLocked,
  };
}

type Items<Row, Item> =
  | [rows: readonly Row[]]
  | [items: readonly Item[], rowOf: (item: Item, place: number) => Row];

function made<Row, Item>(given: Items<Row, Item>): readonly Row[] {
  const [items, rowOf] = given as [readonly Item[], ((item: Item, place: number) => Row)?];
  return rowOf === undefined ? (items as unknown as readonly Row[]) : items.map(rowOf);
}

/** Two transactions lock rows in one order of their keys. */
export const compareTexts = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Undefined where there is none. With a lock, sort the keys. */
export function find<R, Item = Key>(
  of: TypedLook<R>,
  ...keys: Items<Key, Item>
): Typed<(R | undefined)[]> {
  return { op: "find", look: of, keys: made(keys), numbers: null };
}

/** Those that are there. */
export const rowsBy = <R, Name>(
  found: readonly (R | undefined)[],
  nameOf: (row: R, place: number) => Name,
): Map<Name, R> =>
  new Map(
    found.flatMap((row, place) => (row === undefined ? [] : [[nameOf(row, place), row] as const])),
  );

/** With the next number of the table for each key that is not there. Give each key once. */
export function findOrNumber<R, Item>(
  of: TypedLook<R>,
  ...keys: Items<Key, Item>
): Typed<(R | number)[]> {
  return { op: "find", look: of, keys: made(keys), numbers: of.table };
}

export function insert<T extends Table, Item>(table: T, ...rows: Items<RowOf<T>, Item>): Op {
  return { op: "insert", table, rows: made(rows), known: "fails" };
}

export function insertMissing<T extends Table>(table: T, rows: readonly RowOf<T>[]): Op {
  return { op: "insert", table, rows, known: "stays" };
}

/** SQLite has one writer and needs none. Sort the keys. */
export function lock<Item>(of: Look, ...keys: Items<Key, Item>): Op {
  return { op: "lock", look: of, keys: made(keys) };
}

/** For each row, whether it was changed. Sort the rows by key. */
export function update<Item>(of: Change, ...rows: Items<object, Item>): Typed<boolean[]> {
  return { op: "update", change: of, rows: made(rows), asks: true };
}

/** The rows are there, locked, and sorted by key. */
export function set<Item>(
  of: Change & { readonly isLocked: true },
  ...rows: Items<object, Item>
): Op {
  return { op: "update", change: of, rows: made(rows), asks: false };
}

/** For each row, whether it was removed. Sort the rows by key. */
export function remove<Item>(of: Removal, ...rows: Items<object, Item>): Typed<boolean[]> {
  return { op: "remove", removal: of, rows: made(rows) };
}

export const add = (sums: Sums, rows: readonly object[]): Op => ({ op: "add", sums, rows });

export const numbers = (table: Table, count: number): Typed<number[]> => ({
  op: "numbers",
  table,
  count,
});

/** `greatest` and `least`: the functions of the engine. */
export function summedText(
  { table: { name, key }, max, min }: Sums,
  greatest: string,
  least: string,
): string {
  return `ON CONFLICT (${listOf(key)}) DO UPDATE SET n = CASE
    WHEN ${name}.series IN (${literals(max)}) THEN ${greatest}(${name}.n, excluded.n)
    WHEN ${name}.series IN (${literals(min)}) THEN ${least}(${name}.n, excluded.n)
    ELSE ${name}.n + excluded.n END`;
}

type Result<O> = O extends { readonly result?: infer R } ? Exclude<R, undefined> : undefined;

/** They do not depend on each other: one round trip on PostgreSQL. */
export function* together<const O extends readonly Op[]>(
  ops: O,
): Work<{ -readonly [K in keyof O]: Result<O[K]> }> {
  return yield { op: "together", ops };
}

export function* ask<R>(op: Typed<R>): Work<R> {
  return yield op;
}

/** Any statement. Its plan must not depend on what the tables hold. */
export const query = <Row>(query: Sql<Row>): Typed<readonly Row[]> => ({ op: "query", query });

export function* rows<Row>(query: Sql<Row>): Work<readonly Row[]> {
  return yield { op: "query", query };
}

export function* first<Row>(query: Sql<Row>): Work<Row | null> {
  const [row] = (yield { op: "query", query }) as readonly Row[];
  return row ?? null;
}

type Works = Readonly<Record<string, (...args: never[]) => Work<unknown>>>;
type ResultOf<W> = W extends Work<infer T> ? T : never;
type Reads<W extends Works> = {
  readonly [Name in keyof W]: (
    ...args: Parameters<W[Name]>
  ) => MaybePromise<ResultOf<ReturnType<W[Name]>>>;
};
export type Writes<W extends Works> = {
  readonly [Name in keyof W]: (
    ...args: Parameters<W[Name]>
  ) => Promise<ResultOf<ReturnType<W[Name]>>>;
};

export function bound<W extends Works>(
  works: W,
  run: (make: () => Work<unknown>) => unknown,
): Reads<W> {
  return Object.fromEntries(
    Object.entries(works).map(([name, work]) => [
      name,
      (...args: never[]) => run(() => work(...args)),
    ]),
  ) as Reads<W>;
}
