import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import type { MaybePromise } from "../model/maybe-promise.ts";
import { StoreRefused } from "./port.ts";
import type { Engine } from "./schema/ddl.ts";
import { listOf } from "./schema/ddl.ts";
import { bytes, events, state, subjects, type Table, tables } from "./schema/tables.ts";
import {
  ask,
  find,
  first,
  insertMissing,
  look,
  removal,
  remove,
  rows,
  together,
  type Work,
} from "./sql/ops.ts";
import { raw, type Sql, sql } from "./sql/sql.ts";
import { put, value, values } from "./work/state.ts";
import { type Copy, copyKey } from "./work/state-rows.ts";

/*
 * Carries a store over into an empty one, while relays use it. Each table is walked by key on both
 * sides, and rows that differ are copied, until little is left. During the last walk the source
 * refuses writes, and then it is marked as moved. No relay starts on the target before that.
 */

export interface CopySide {
  readonly engine: Engine;
  readonly name: string;
  read<T>(work: Work<T>): MaybePromise<T>;
  close(): Promise<void>;
}

export interface CopySource extends CopySide {
  /**
   * From now on relays cannot write, and `read` sees their last write. `end` makes that permanent;
   * a `close` or the end of this process before it undoes it.
   */
  freeze(mark: () => Work<void>, refusal: string): MaybePromise<{ end(): MaybePromise<void> }>;
}

export interface CopyTarget extends CopySide {
  write<T>(make: () => Work<T>): MaybePromise<T>;
  /** Throws `StoreRefused` when a relay uses it. */
  refuseUsed(): Promise<void>;
}

interface Sides {
  readonly from: CopySource;
  readonly to: CopyTarget;
}

type Progress = (walk: number | "last", table: string, done: number, of: number) => void;

export interface CopyReport {
  /** `before`: an earlier run had ended it, and nothing was written. */
  readonly result: "copied" | "resumed" | "before";
  /** Null: the counts differ, and no relay starts on the target. */
  readonly finishedAt: number | null;
  readonly counts: readonly {
    readonly table: string;
    readonly from: number;
    readonly to: number;
  }[];
  readonly closedMs: number;
}

const idKey = "store/id";
const movedKey = "store/moved";

interface Moved {
  readonly to: string;
  readonly at: number;
  /** When the copy began. Copies into other targets began at other times. */
  readonly startedAt: number;
}

export function* refusalOfCopy(): Work<string | null> {
  const [copy = null, moved = null] = yield* values<Copy & Moved>([copyKey, movedKey]);
  if (moved !== null) return movedText(moved);
  if (copy !== null && copy.finishedAt === null)
    return `holds a part of ${copy.from}; run the same "wamid-relay migrate" again first`;
  return null;
}

const movedText = ({ to, at }: Moved): string =>
  `was moved to ${to} at ${new Date(at).toISOString()}; start the relay there`;

/** Further walks, while one still finds so many rows. */
const walks = { most: 4, rows: 5_000 };
const compared = 5_000;
const batch = { least: 10, most: 2_000, bytes: 4_000_000 };

export async function copyStore({
  from,
  to: target,
  now,
  progress,
}: Sides & { readonly now: () => number; readonly progress: Progress }): Promise<CopyReport> {
  const id = await from.read(value<string>(idKey));
  if (id === null) throw new StoreRefused(`${from.name}: holds no data yet`);
  const copy = await target.read(value<Copy>(copyKey));
  if (copy?.id === id && copy.finishedAt !== null)
    return { result: "before", finishedAt: copy.finishedAt, counts: [], closedMs: 0 };
  const moved = await from.read(value<Moved>(movedKey));
  const refusal = await from.read(refusalOfCopy());
  // An earlier run was cut off between its last two steps.
  if (refusal !== null && (moved === null || moved.startedAt !== copy?.startedAt))
    throw new StoreRefused(`${from.name}: ${refusal}`);
  if (copy === null) await target.read(refuseStored(target.name));
  else if (copy.id !== id)
    throw new StoreRefused(`${target.name}: holds a copy of other data (${copy.from})`);
  await target.refuseUsed();
  const begun: Copy = {
    ...(copy ?? { id, from: from.name, startedAt: now(), finishedAt: null }),
    run: randomUUID(),
  };
  await ownedBy(copy, target).write(() => put(copyKey, begun));
  const to = ownedBy(begun, target);

  const walk = async (number: number | "last"): Promise<number> => {
    let copied = 0;
    for (const table of tables)
      copied += await alignTable(table, { from, to }, (done, of) =>
        progress(number, table.name, done, of),
      );
    return copied;
  };
  for (let number = 1; (await walk(number)) > walks.rows && number < walks.most; ) number += 1;
  const mark: Moved = { to: to.name, at: now(), startedAt: begun.startedAt };
  const frozen =
    moved === null ? await from.freeze(() => markMoved(from.name, mark), movedText(mark)) : null;
  await walk("last");
  await to.write(() => continueNumbers(to.engine));
  const counts: CopyReport["counts"][number][] = [];
  for (const table of tables)
    counts.push({
      table: table.name,
      from: await from.read(countOf(table)),
      to: await to.read(countOf(table)),
    });
  const result = copy === null ? "copied" : "resumed";
  if (counts.some((count) => count.from !== count.to))
    return { result, finishedAt: null, counts, closedMs: now() - mark.at };
  // A relay may have started meanwhile.
  await to.refuseUsed();
  // Cut off in between, neither side is used before the command is repeated.
  await frozen?.end();
  const finishedAt = now();
  await to.write(function* () {
    yield* put(idKey, id);
    const newest = yield* first(
      sql<{ readonly seq: number | null }>`SELECT max(seq) AS seq FROM events`,
    );
    yield* put(copyKey, { ...begun, finishedAt, lastEvent: newest?.seq ?? 0 } satisfies Copy);
  });
  return { result, finishedAt, counts, closedMs: frozen === null ? 0 : finishedAt - mark.at };
}

/** A copy into another target may have ended meanwhile. Two relays would deliver the same. */
function* markMoved(name: string, mark: Moved): Work<void> {
  const other = yield* value<Moved>(movedKey);
  if (other !== null) throw new StoreRefused(`${name}: ${movedText(other)}`);
  yield* put(movedKey, mark);
}

/**
 * Of two runs into one target, the later goes on. The earlier would remove what only the later has
 * copied, and what a relay stored since.
 */
function ownedBy(copy: Copy | null, to: CopyTarget): CopyTarget {
  return {
    ...to,
    write: (make) =>
      to.write(function* () {
        if (!isDeepStrictEqual(yield* value<Copy>(copyKey, "update"), copy))
          throw new StoreRefused(
            `${to.name}: another "wamid-relay migrate" has continued this copy`,
          );
        return yield* make();
      }),
  };
}

function* refuseStored(name: string): Work<void> {
  for (const table of tables) {
    const found = yield* rows(
      sql`SELECT 1 FROM ${raw(table.name)} WHERE ${ofRelay(table)} LIMIT 1`,
    );
    if (found.length > 0)
      throw new StoreRefused(`${name}: is not empty; give the copy a place of its own`);
  }
}

type Row = Readonly<Record<string, unknown>>;

/**
 * Of these tables, rows differ only if one of these columns does; of the others, all without the
 * bytes.
 */
const telling: Readonly<Record<string, readonly string[]>> = {
  events: ["disposition", "plan", "duplicates", "conflicts", "fault", "release"],
  plans: [],
  deliveries: ["settled_at", "attempts", "replays"],
  attempts: ["at"],
};

async function alignTable(
  table: Table,
  { from, to }: Sides,
  progress: (done: number, of: number) => void,
): Promise<number> {
  const ofKey = (row: Row): unknown[] => table.key.map((name) => row[name]);
  const whole = look(table, table.key, table.names);
  const gone = removal(table);
  const of = await from.read(countOf(table));
  let [done, copied, limit] = [0, 0, batch.least];
  let after: Row | null = null;
  for (;;) {
    const wanted: readonly Row[] = await from.read(rowsAfter(table, after, { limit: compared }));
    const last: Row | null = wanted.length < compared ? null : (wanted.at(-1) ?? null);
    const known = new Map(
      (await to.read(rowsAfter(table, after, { last }))).map((row) => [
        JSON.stringify(ofKey(row)),
        row,
      ]),
    );
    const missing: Row[] = [];
    const differing = new Set<Row>();
    for (const row of wanted) {
      const key = JSON.stringify(ofKey(row));
      const found = known.get(key);
      known.delete(key);
      if (found !== undefined && JSON.stringify(found) === JSON.stringify(row)) continue;
      missing.push(row);
      if (found !== undefined) differing.add(row);
    }
    const extra = [...known.values()];
    if (extra.length > 0) await to.write(() => ask(remove(gone, extra)));
    for (let place = 0; place < missing.length; ) {
      const part = missing.slice(place, place + limit);
      place += part.length;
      // A relay may have removed some since.
      const found = (await from.read(ask(find<Row>(whole, part.map(ofKey))))).filter(
        (row) => row !== undefined,
      );
      const changed = part.filter((row) => differing.has(row));
      // A row with the same unique id may still be there, which goes with the next walk.
      await to.write(() => together([remove(gone, changed), insertMissing(table, found as never)]));
      progress(Math.min(done + place, of), of);
      const bytes = found.reduce((sum, row) => sum + sizeOf(row), 1);
      limit = Math.max(
        batch.least,
        Math.min(batch.most, Math.floor((batch.bytes / bytes) * part.length)),
      );
    }
    done += wanted.length;
    copied += missing.length + extra.length;
    progress(Math.min(done, of), of);
    if (last === null) return copied;
    after = last;
  }
}

function* rowsAfter(
  table: Table,
  after: Row | null,
  { last = null, limit }: { last?: Row | null; limit?: number },
): Work<readonly Row[]> {
  const shown =
    telling[table.name] ??
    table.names.filter(
      (name) => table.columns[name]?.array !== bytes.array && !table.key.includes(name),
    );
  const key = raw(listOf(table.key));
  const places = (row: Row): Sql =>
    table.key
      .map((name) => sql`${row[name] as number | string}`)
      .reduce((all, one) => sql`${all}, ${one}`);
  const begin = after === null ? undefined : sql`AND (${key}) > (${places(after)})`;
  const end = last === null ? undefined : sql`AND (${key}) <= (${places(last)})`;
  return yield* rows(
    sql<Row>`SELECT ${raw(listOf([...table.key, ...shown]))} FROM ${raw(table.name)} WHERE ${ofRelay(table)} ${begin} ${end} ORDER BY ${key}
      ${limit === undefined ? undefined : sql`LIMIT ${limit}`}`,
  );
}

function* countOf(table: Table): Work<number> {
  const [found] = yield* rows(
    sql<{
      readonly n: number;
    }>`SELECT count(*) AS n FROM ${raw(table.name)} WHERE ${ofRelay(table)}`,
  );
  return found?.n ?? 0;
}

/** Rows of processes, or of the place of a store, are not copied. */
const ofPlaces = ["process/", "worker/", "lease/", "leader/", "caller/", "store/"];

function ofRelay(table: Table): Sql {
  if (table !== state) return sql`1 = 1`;
  // "0" follows "/".
  return ofPlaces
    .map((prefix) => sql`NOT (key >= ${prefix} AND key < ${`${prefix.slice(0, -1)}0`})`)
    .reduce((all, one) => sql`${all} AND ${one}`);
}

function* continueNumbers(engine: Engine): Work<void> {
  if (engine === "sqlite") return;
  for (const { name } of [events, subjects])
    yield* rows(
      sql`SELECT setval(${`${name}_seq`}, greatest((SELECT max(seq) FROM ${raw(name)}), 1), (SELECT count(*) > 0 FROM ${raw(name)}))`,
    );
}

function sizeOf(row: Row): number {
  let bytes = 0;
  for (const value of Object.values(row))
    bytes += typeof value === "string" || Buffer.isBuffer(value) ? value.length : 8;
  return bytes;
}
