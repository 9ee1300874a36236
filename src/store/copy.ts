import type { MaybePromise } from "../model/maybe-promise.ts";
import { StoreRefused } from "./port.ts";
import type { Engine } from "./schema/ddl.ts";
import { listOf, quoted } from "./schema/ddl.ts";
import type { Table } from "./schema/table.ts";
import { events, state, subjects, tables } from "./schema/tables.ts";
import { ask, insert, rows, type Work } from "./sql/ops.ts";
import { raw, type Sql, sql } from "./sql/sql.ts";
import { put, values } from "./work/state.ts";

/*
 * Carries a store over into an empty one, on the same or the other database. Both have the same tables, so the rows are
 * copied as they are. Each batch is a transaction, and a table continues after the last row that arrived, so a copy that was
 * cut off is repeated. Until it ends, no relay starts on the target, and from then on none on the source.
 */

/** A store that no relay uses. */
export interface CopySide {
  readonly engine: Engine;
  /** For people. */
  readonly name: string;
  read<T>(work: Work<T>): MaybePromise<T>;
  /** One transaction. */
  write<T>(make: () => Work<T>): MaybePromise<T>;
}

/** A side that one process has open. */
export interface OpenSide extends CopySide {
  /** Throws `StoreRefused` when a relay uses it. */
  refuseUsed(): Promise<void>;
  close(): Promise<void>;
}

export interface CopyOrder {
  readonly from: OpenSide;
  readonly to: OpenSide;
  /** Unix ms. */
  readonly now: () => number;
  readonly progress: (table: string, copied: number, of: number) => void;
}

export interface TableCount {
  readonly table: string;
  readonly from: number;
  readonly to: number;
}

export interface CopyReport {
  /** `before`: an earlier run had ended it, and nothing was written. */
  readonly result: "copied" | "resumed" | "before";
  /** Unix ms; null: the counts differ, and no relay starts on the target. */
  readonly finishedAt: number | null;
  /** Empty when nothing was written. */
  readonly counts: readonly TableCount[];
}

const idKey = "store/id";
const copyKey = "store/copy";
const movedKey = "store/moved";

/** In the target, for as long as it is kept. */
interface Copy {
  /** The id of the copied data. */
  readonly id: string;
  readonly from: string;
  readonly startedAt: number;
  readonly finishedAt: number | null;
}

/** In the source, once its data live elsewhere. */
interface Moved {
  readonly to: string;
  readonly at: number;
}

/** Why no relay may use this store; null: it may. */
export function* refusalOfCopy(): Work<string | null> {
  const [copy = null, moved = null] = yield* values<Copy & Moved>([copyKey, movedKey]);
  if (moved !== null) return `was moved to ${moved.to} at ${new Date(moved.at).toISOString()}; start the relay there`;
  if (copy !== null && copy.finishedAt === null) return `holds a part of ${copy.from}; run the same "wamid-relay migrate" again first`;
  return null;
}

/** Most rows of a batch, and about how many bytes it may take in memory. */
const batch = { least: 10, most: 2_000, bytes: 4_000_000 };

export async function copyStore({ from, to, now, progress }: CopyOrder): Promise<CopyReport> {
  const [id = null] = await from.read(values<string>([idKey]));
  if (id === null) throw new StoreRefused(`${from.name}: holds no data yet`);
  const [copy = null] = await to.read(values<Copy>([copyKey]));
  if (copy?.id === id && copy.finishedAt !== null) return { result: "before", finishedAt: copy.finishedAt, counts: [] };
  if (copy === null) await to.read(refuseStored(to.name));
  else if (copy.id !== id) throw new StoreRefused(`${to.name}: holds a copy of other data (${copy.from})`);
  await refuseUsed(from, to);
  const begun: Copy = copy ?? { id, from: from.name, startedAt: now(), finishedAt: null };
  await to.write(() => put(copyKey, begun));

  for (const table of tables) await copyTable(table, { from, to, progress });
  await to.write(() => continueNumbers(to.engine));
  const counts = await Promise.all(tables.map(async (table) => ({ table: table.name, ...(await countBoth(table, from, to)) })));
  const result = copy === null ? "copied" : "resumed";
  if (counts.some((count) => count.from !== count.to)) return { result, finishedAt: null, counts };
  // A relay may have started meanwhile.
  await refuseUsed(from, to);
  // In this order: cut off in between, neither side is used before the command is repeated.
  await from.write(() => put(movedKey, { to: to.name, at: now() } satisfies Moved));
  const finishedAt = now();
  await to.write(function* () {
    yield* put(idKey, id);
    yield* put(copyKey, { ...begun, finishedAt } satisfies Copy);
  });
  return { result, finishedAt, counts };
}

async function refuseUsed(from: OpenSide, to: OpenSide): Promise<void> {
  await from.refuseUsed();
  await to.refuseUsed();
}

function* refuseStored(name: string): Work<void> {
  for (const table of tables) {
    const found = yield* rows(sql`SELECT 1 FROM ${raw(table.name)} ${ofRelay(table)} LIMIT 1`);
    if (found.length > 0) throw new StoreRefused(`${name}: is not empty; give the copy a place of its own`);
  }
}

async function copyTable(table: Table, { from, to, progress }: Pick<CopyOrder, "from" | "to" | "progress">): Promise<void> {
  const of = await from.read(countOf(table));
  let copied = await to.read(countOf(table));
  // Rows of `state` come in any order.
  let after = table === state ? null : ((await to.read(lastOf(table))) ?? null);
  let limit = batch.least;
  for (;;) {
    const found = await from.read(rowsAfter(table, after, limit));
    const last = found.at(-1);
    if (last === undefined) return;
    await to.write(function* () {
      yield* ask(insert(table, found as never, "stays"));
    });
    after = last;
    copied += found.length;
    progress(table.name, Math.min(copied, of), of);
    const bytes = found.reduce((sum, row) => sum + sizeOf(row), 1);
    limit = Math.max(batch.least, Math.min(batch.most, Math.floor((batch.bytes / bytes) * found.length)));
  }
}

type Row = Readonly<Record<string, unknown>>;

const keyOf = (table: Table): Sql => raw(listOf(table.key));

function* rowsAfter(table: Table, after: Row | null, limit: number): Work<readonly Row[]> {
  const begin = after === null ? undefined : sql`AND (${keyOf(table)}) > (${placesOf(table, after)})`;
  const where = sql`${ofRelay(table)} ${begin}`;
  return yield* rows(sql<Row>`SELECT * FROM ${raw(table.name)} ${where} ORDER BY ${keyOf(table)} LIMIT ${limit}`);
}

function placesOf(table: Table, row: Row): Sql {
  return table.key.map((name) => sql`${row[name] as number | string}`).reduce((list, one) => sql`${list}, ${one}`);
}

function* lastOf(table: Table): Work<Row | undefined> {
  const order = raw(table.key.map((name) => `${quoted(name)} DESC`).join(", "));
  return (yield* rows(sql<Row>`SELECT ${keyOf(table)} FROM ${raw(table.name)} ORDER BY ${order} LIMIT 1`))[0];
}

function* countOf(table: Table): Work<number> {
  const [found] = yield* rows(sql<{ readonly n: number }>`SELECT count(*) AS n FROM ${raw(table.name)} ${ofRelay(table)}`);
  return found?.n ?? 0;
}

async function countBoth(table: Table, from: CopySide, to: CopySide): Promise<{ from: number; to: number }> {
  return { from: await from.read(countOf(table)), to: await to.read(countOf(table)) };
}

/** What is of processes, or of the place of a store, stays where it is. */
const ofPlaces = ["process/", "worker/", "lease/", "leader/", "caller/", "store/"];

function ofRelay(table: Table): Sql {
  if (table !== state) return sql`WHERE 1 = 1`;
  // "0" follows "/".
  return ofPlaces
    .map((prefix) => sql`AND NOT (key >= ${prefix} AND key < ${`${prefix.slice(0, -1)}0`})`)
    .reduce((all, one) => sql`${all} ${one}`, sql`WHERE 1 = 1`);
}

/** New rows get numbers after the copied ones. SQLite takes them from the rows. */
function* continueNumbers(engine: Engine): Work<void> {
  if (engine === "sqlite") return;
  for (const { name } of [events, subjects])
    yield* rows(
      sql`SELECT setval(${`${name}_seq`}, greatest((SELECT max(seq) FROM ${raw(name)}), 1), (SELECT count(*) > 0 FROM ${raw(name)}))`,
    );
}

function sizeOf(row: Row): number {
  let bytes = 0;
  for (const value of Object.values(row)) bytes += typeof value === "string" || Buffer.isBuffer(value) ? value.length : 8;
  return bytes;
}
