/** A type of column. `array` is PostgreSQL's type for many values in one parameter. */
export interface Kind<T> {
  readonly sqlite: string;
  readonly postgres: string;
  readonly array: string;
  readonly isNull: boolean;
  /** Only for the compiler: the type of a value. */
  readonly value?: T;
}

function kind<T>(sqlite: string, postgres: string, array: string): Kind<T> & { readonly orNull: Kind<T | null> } {
  const one = { sqlite, postgres, array, isNull: false };
  return { ...one, orNull: { ...one, isNull: true } };
}

/** A safe integer: a count, a number of a list, or unix ms. */
export const int = kind<number>("INTEGER", "bigint", "bigint[]");
export const small = kind<number>("INTEGER", "smallint", "smallint[]");
/** Compared byte by byte on both databases. */
export const text = kind<string>("TEXT", 'text COLLATE "C"', "text[]");
export const bytes = kind<Buffer>("BLOB", "bytea", "bytea[]");

export type Columns = Readonly<Record<string, Kind<unknown>>>;

export interface Index {
  readonly name: string;
  readonly on: readonly string[];
  readonly isUnique?: boolean;
  /** The rows that are in it; absent: all. */
  readonly where?: string;
}

export interface Table<C extends Columns = Columns> {
  readonly name: string;
  readonly columns: C;
  readonly names: readonly string[];
  readonly key: readonly string[];
  readonly indexes: readonly Index[];
  /** How full PostgreSQL makes a page, in percent, so that changed rows find a place in it. */
  readonly fillfactor: number;
}

type AnyTable = Pick<Table, "columns">;
export type RowOf<T extends AnyTable> = { -readonly [K in keyof T["columns"]]: T["columns"][K] extends Kind<infer V> ? V : never };
export type ColumnOf<T extends AnyTable> = keyof T["columns"] & string;

interface TableParts<C extends Columns> {
  readonly key: readonly (keyof C & string)[];
  readonly indexes?: Readonly<Record<string, Omit<Index, "name" | "on"> & { readonly on: readonly (keyof C & string)[] }>>;
  readonly fillfactor?: number;
}

export function table<const C extends Columns>(name: string, columns: C, { key, indexes = {}, fillfactor = 100 }: TableParts<C>): Table<C> {
  return {
    name,
    columns,
    names: Object.keys(columns),
    key,
    indexes: Object.entries(indexes).map(([short, index]) => ({ ...index, name: `${name}_${short}` })),
    fillfactor,
  };
}
