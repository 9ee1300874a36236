import { kept } from "../../model/maps.ts";
import { listOf, quoted } from "../schema/ddl.ts";
import type { Kind, Table } from "../schema/tables.ts";
import {
  type Change,
  type Look,
  type Op,
  type Removal,
  summedText,
  type Work,
} from "../sql/ops.ts";
import { render } from "../sql/sql.ts";

const elements = { "bigint[]": 20, "smallint[]": 21, "text[]": 25, "bytea[]": 17 };

/**
 * As text, each element would be escaped here and parsed again there, and bytes take twice their
 * size.
 */
function packArray({ array }: Pick<Kind<unknown>, "array">, values: readonly unknown[]): Buffer {
  const element = elements[array as keyof typeof elements];
  const sizes = values.map((value) => sizeOf(array, value));
  const packed = Buffer.allocUnsafe(
    20 + sizes.reduce((sum, size) => sum + 4 + Math.max(size, 0), 0),
  );
  // Dimensions, whether there may be nulls, the type of elements, their number, the index of the
  // first one.
  for (const [place, head] of [1, 1, element, values.length, 1].entries())
    packed.writeInt32BE(head, place * 4);
  let at = 20;
  for (const [place, value] of values.entries()) {
    const size = sizes[place] as number;
    at = packed.writeInt32BE(size, at);
    if (typeof value === "string") at += packed.write(value, at);
    else if (Buffer.isBuffer(value)) at += value.copy(packed, at);
    else if (typeof value === "number")
      at = size === 2 ? packed.writeInt16BE(value, at) : writeInt64(packed, value, at);
  }
  return packed;
}

function sizeOf(array: string, value: unknown): number {
  if (value === null || value === undefined) return -1;
  if (typeof value === "string") return Buffer.byteLength(value);
  if (Buffer.isBuffer(value)) return value.length;
  return array === "smallint[]" ? 2 : 8;
}

/** A BigInt for each would take five times as long. */
function writeInt64(into: Buffer, value: number, at: number): number {
  const high = Math.floor(value / 0x1_0000_0000);
  into.writeInt32BE(high, at);
  return into.writeUInt32BE(value - high * 0x1_0000_0000, at + 4);
}

type Row = Readonly<Record<string, unknown>>;

/** Statements are sent at once and answered in their order. */
export interface Connection {
  /** `name`: the statement is prepared once under it. */
  query(statement: {
    readonly name: string;
    readonly text: string;
    readonly values: readonly unknown[];
  }): Promise<Answer>;
}

export interface Answer {
  readonly command: string;
  readonly rows: readonly Row[];
  readonly rowCount: number | null;
}

interface Finding {
  readonly look: Look;
  readonly numbers?: Table | null;
}

interface Shape {
  readonly name: string;
  readonly text: string;
}

type Ask = (shape: Shape, values: readonly unknown[]) => Promise<Answer>;

const shapes = new Map<string, Shape>();
/** Above this, rows are sent as arrays: each shape takes memory of the database. */
const mostShapes = 32;
const shapesOf = new Map<string, number>();

export function createPostgresRunner(connection: Connection) {
  const ask: Ask = (shape, values) => connection.query({ ...shape, values });
  /** Statements whose answers no command looks at are waited for at its end. */
  const noted: Promise<unknown>[] = [];

  function note(answer: Promise<unknown>): void {
    answer.catch(() => {});
    noted.push(answer);
  }

  async function run(op: Op): Promise<unknown> {
    switch (op.op) {
      case "together":
        return settledAll(op.ops.map(run));
      case "query": {
        const { text, values } = render(op.query, "postgres");
        const shape = shapeOf(text, () => text);
        const { rows, rowCount } = await ask(shape, values);
        return /^\s*(?:SELECT|WITH)\b|\bRETURNING\b/i.test(text) ? rows : (rowCount ?? 0);
      }
      case "find": {
        const found: (Row | number | undefined)[] = new Array(op.keys.length).fill(undefined);
        if (op.keys.length === 0) return found;
        for (const { "#": place, "+": fresh = null, ...row } of await find(ask, op, op.keys))
          found[(place as number) - 1] = fresh === null ? row : (fresh as number);
        return found;
      }
      case "insert":
        if (op.rows.length > 0)
          note(
            write(
              ask,
              op.table,
              `insert ${op.known}`,
              op.rows as readonly Row[],
              op.known === "stays" ? "ON CONFLICT DO NOTHING" : "",
            ),
          );
        return undefined;
      case "add":
        if (op.rows.length > 0)
          note(
            write(
              ask,
              op.sums.table,
              "add",
              op.rows as readonly Row[],
              summedText(op.sums, "greatest", "least"),
            ),
          );
        return undefined;
      case "lock":
        if (op.keys.length > 0) note(find(ask, op, op.keys));
        return undefined;
      case "update": {
        const answer = changed(
          ask,
          op.change,
          () => updateText(op.change),
          op.rows as readonly Row[],
        );
        if (op.asks) return answer;
        note(answer);
        return undefined;
      }
      case "remove":
        return changed(
          ask,
          op.removal,
          () =>
            `DELETE FROM ${op.removal.table.name} t USING ${placedText(op.removal)} RETURNING x."#"::int`,
          op.rows as readonly Row[],
        );
      case "numbers": {
        if (op.count === 0) return [];
        const text = `SELECT ${numberOf(op.table)} AS n FROM generate_series(1, $1::int)`;
        const { rows } = await ask(
          shapeOf(text, () => text),
          [op.count],
        );
        return rows.map(({ n }) => n);
      }
    }
  }

  return {
    /** With writes, call it inside a transaction, and wait for `written` at its end. */
    async execute<T>(work: Work<T>): Promise<T> {
      let step = work.next();
      while (step.done !== true) step = work.next(await run(step.value));
      return step.value;
    },
    /** Rejects with the first error, which the later ones follow from. */
    written: async (): Promise<void> => void (await settledAll(noted)),
  };
}

async function find(
  ask: Ask,
  { look, numbers = null }: Finding,
  keys: readonly (readonly unknown[])[],
): Promise<readonly Row[]> {
  const values = look.by.map((name, place) =>
    packArray(
      kindOf(look.table, name),
      keys.map((key) => key[place]),
    ),
  );
  const { rows } = await ask(
    shapeOf(`${look.name} ${numbers?.name ?? ""}`, () => findText(look, numbers)),
    values,
  );
  return rows;
}

/**
 * The statement locks the rows in their order, and passes over one that another transaction changed
 * meanwhile. Once it holds the lock, a second statement changes that row.
 */
async function changed(
  ask: Ask,
  of: Removal,
  text: () => string,
  rows: readonly Row[],
): Promise<boolean[]> {
  const done: boolean[] = new Array(rows.length).fill(false);
  let left = rows.map((_, place) => place);
  for (let tries = of.isLocked ? 1 : 2; tries > 0 && left.length > 0; tries -= 1) {
    const some = left.length === rows.length ? rows : left.map((place) => rows[place] as Row);
    const answer = await ask(
      shapeOf(of.name, text),
      of.names.map((name) => columnOf(of.table, name, some)),
    );
    for (const { "#": place } of answer.rows) done[left[(place as number) - 1] as number] = true;
    left = left.filter((place) => !done[place]);
  }
  return done;
}

/**
 * Columns with one value in all rows are sent once. An array for each would take a third more of
 * the database's time.
 */
function write(
  ask: Ask,
  table: Table,
  kind: string,
  rows: readonly Row[],
  ending: string,
): Promise<Answer> {
  const group = `${kind} ${table.name}`;
  let shape = shapeOfRows(table, rows);
  if (!shapes.has(`${group} ${shape}`)) {
    const known = shapesOf.get(group) ?? 0;
    if (known >= mostShapes) shape = "a".repeat(table.names.length);
    shapesOf.set(group, known + 1);
  }
  const values: unknown[] = [];
  for (const [place, name] of table.names.entries()) {
    if (shape[place] === "s") values.push((rows[0] as Row)[name]);
    else if (shape[place] === "a") values.push(columnOf(table, name, rows));
  }
  const named = shapeOf(`${group} ${shape}`, () => `${insertText(table, shape)} ${ending}`);
  return ask(named, values);
}

/** Waits for all, so that no answer of a failed transaction arrives later. */
async function settledAll(all: readonly Promise<unknown>[]): Promise<unknown[]> {
  const settled = await Promise.allSettled(all);
  return settled.map((one) => {
    if (one.status === "rejected") throw one.reason;
    return one.value;
  });
}

const shapeOf = (key: string, text: () => string): Shape =>
  kept(shapes, key, () => ({ name: `s${shapes.size}`, text: text() }));

const columnOf = (table: Table, name: string, rows: readonly Row[]): Buffer =>
  packArray(
    kindOf(table, name),
    rows.map((row) => row[name]),
  );
const kindOf = (table: Table, name: string): Kind<unknown> => table.columns[name] as Kind<unknown>;
const arraysOf = (table: Table, names: readonly string[]): string =>
  names.map((name, place) => `$${place + 1}::${kindOf(table, name).array}`).join(", ");

/** The transaction gets its own number before it takes one from a sequence (reader.ts). */
const numberOf = ({ name }: Table): string =>
  `CASE WHEN pg_current_xact_id() IS NOT NULL THEN nextval('${name}_seq') END`;

/** A join would let the planner read a whole account (measured: 930 µs an event against 28). */
function findText({ table, by, columns, order, lock, where }: Look, numbers: Table | null): string {
  const keys = by.map((_, place) => `k${place}`);
  const own = by.map((name, place) => `o.${quoted(name)} = x.k${place}`);
  const conditions = [...own, ...(where === null ? [] : [where])].join(" AND ");
  const ordered = order === null ? "" : ` ORDER BY o.${quoted(order)}`;
  const locked = lock === null ? "" : ` FOR ${lock.toUpperCase()}`;
  const number =
    numbers === null ? "" : `, CASE WHEN t."@" IS NULL THEN ${numberOf(numbers)} END AS "+"`;
  const [join, end, mark] =
    numbers === null ? ["CROSS JOIN", "", ""] : ["LEFT JOIN", " ON TRUE", ', 1 AS "@"'];
  return `SELECT x.n::int AS "#", ${numbers === null ? "t.*" : listOf(columns)}${number}
    FROM unnest(${arraysOf(table, by)}) WITH ORDINALITY x(${keys.join(", ")}, n)
    ${join} LATERAL (SELECT ${listOf(columns)}${mark} FROM ${table.name} o WHERE ${conditions}${ordered} LIMIT 1${locked}) t${end}`;
}

/** A letter for each column: null in all rows, the same in all, or an array. */
function shapeOfRows({ names }: Table, rows: readonly Row[]): string {
  let shape = "";
  for (const name of names) {
    const value = (rows[0] as Row)[name];
    const isSame = !Buffer.isBuffer(value) && rows.every((row) => row[name] === value);
    shape += !isSame ? "a" : value === null ? "n" : "s";
  }
  return shape;
}

function insertText(table: Table, shape: string): string {
  const arrays: string[] = [];
  let parameter = 0;
  const list = table.names.map((name, place) => {
    const kind = kindOf(table, name);
    if (shape[place] === "n") return "NULL";
    parameter += 1;
    if (shape[place] === "s") return `$${parameter}::${kind.array.slice(0, -2)}`;
    arrays.push(`$${parameter}::${kind.array}`);
    return `x.c${arrays.length}`;
  });
  const from =
    arrays.length === 0
      ? ""
      : ` FROM unnest(${arrays.join(", ")}) x(${arrays.map((_, place) => `c${place + 1}`).join(", ")})`;
  return `INSERT INTO ${table.name} (${listOf(table.names)}) SELECT ${list.join(", ")}${from}`;
}

function updateText(change: Change): string {
  const { table, set, add, count } = change;
  const parts = [
    ...set.map((name) => `${quoted(name)} = x.${quoted(name)}`),
    ...add.map((name) => `${quoted(name)} = t.${quoted(name)} + x.${quoted(name)}`),
    ...count.map((name) => `${quoted(name)} = t.${quoted(name)} + 1`),
  ];
  return `UPDATE ${table.name} t SET ${parts.join(", ")} FROM ${placedText(change)} RETURNING x."#"::int`;
}

/**
 * For a plain join, the planner would go through a table that it knows as nearly empty, and keep to
 * that plan.
 */
function placedText({ table, by, names, isLocked }: Removal): string {
  const own = by.map((name) => `o.${quoted(name)} = x.${quoted(name)}`).join(" AND ");
  return `(SELECT x.*, o."@" FROM unnest(${arraysOf(table, names)}) WITH ORDINALITY x(${listOf(names)}, "#")
    CROSS JOIN LATERAL (SELECT o.ctid AS "@" FROM ${table.name} o WHERE ${own} LIMIT 1${isLocked ? "" : " FOR UPDATE"}) o) x WHERE t.ctid = x."@"`;
}
