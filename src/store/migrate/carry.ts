import { StoreRefused } from "../port.ts";
import type { RedisLink } from "../redis/client.ts";
import { type Keys, keysOf } from "../redis/keys.ts";
import { createVersions, rowVersion } from "../redis/rows.ts";
import { type MigrationRow, migrationRowName, readMigrationRow } from "../redis/schema.ts";
import { readScript } from "../redis/script.ts";
import { carryEvents } from "./carry-events.ts";
import {
  carryHistoryHours,
  carryHistoryMinutes,
  carryMessages,
  carryPasses,
  carryRequests,
  carryRuns,
  carrySends,
  carryWords,
} from "./carry-tables.ts";
import { type Batch, boundsOf, type Carrier, createBatch, type Source } from "./source.ts";

interface CarryOrder {
  readonly source: Source;
  readonly link: RedisLink;
  readonly prefix: string;
  readonly now: () => number;
  /** Runs before the first write. If it throws, nothing is written. */
  readonly prepare: () => Promise<void>;
  /** `part` is from 0 to 1. `kind` is the current table, copied up to `at` of `last`. */
  readonly progress: (part: number, at: { readonly kind: string; readonly at: number; readonly last: number }) => void;
}

interface Migration {
  /** Null: an earlier migration was complete, so nothing was written. */
  readonly carried: { readonly isResumed: boolean } | null;
  /** Of the events in the file. */
  readonly lastSeq: number;
  /** Unix ms; null: not yet. */
  finishedAt(): number | null;
  /** Marks it as complete, so that relays may start. */
  end(): Promise<void>;
}

const script = readScript("migrate");

/**
 * Copies the file to Redis in atomic batches that record the progress, so that the next call continues after any
 * interruption. Throws `StoreRefused` when the keys are in use or hold the rows of another file.
 */
export async function carryOver({ source, link, prefix, now, prepare, progress }: CarryOrder): Promise<Migration> {
  const keys = keysOf(prefix);
  const version = createVersions();
  const where = `prefix ${prefix} of this Redis`;
  const { last: seq } = boundsOf(source, "events");
  const write = createWrite(keys, link, { version, seq, where });
  const parts = { source, version };
  const carriers = [
    carryWords,
    carryMessages,
    carryRuns,
    carryEvents,
    carryPasses,
    carrySends,
    carryRequests,
    carryHistoryMinutes,
    carryHistoryHours,
  ].map((carry) => carry(parts));

  const stored = await link.run((redis) => redis.get(keys.of(migrationRowName)));
  let row: MigrationRow;
  if (stored === null) {
    await prepare();
    row = { file: source.identity, path: source.path, startedAt: now(), finishedAt: null, step: 0, after: 0 };
    await write.begin(row, beginning(keys, source, seq));
  } else {
    row = readMigrationRow(stored);
    checkSame(row, source, where);
    write.goOn(rowVersion(stored));
  }
  if (row.finishedAt !== null) return { carried: null, lastSeq: seq, finishedAt: () => row.finishedAt, end: () => Promise.resolve() };
  if (stored !== null) await prepare();

  const isResumed = stored !== null;
  const sizes = carriers.map(({ first, last }) => (last === 0 ? 0 : last - first + 1));
  const all = sizes.reduce((sum, size) => sum + size, 0);

  function show(): void {
    const carrier = carriers[row.step];
    if (carrier === undefined) return;
    const { kind, first, last } = carrier;
    const before = sizes.slice(0, row.step).reduce((sum, size) => sum + size, 0);
    progress((before + Math.max(0, row.after - first + 1)) / all, { kind, at: row.after, last });
  }

  // While Redis takes a batch the next one is read.
  let underWay: Promise<void> = Promise.resolve();
  for (let next = row; next.step < carriers.length; ) {
    const batch = createBatch(keys.base);
    const place = (carriers[next.step] as Carrier).next(next.after, batch);
    next = place === null ? { ...next, step: next.step + 1, after: 0 } : { ...next, after: place };
    await underWay;
    show();
    if (place === null) continue;
    row = next;
    underWay = write.put(row, batch);
    // The await below reports a failure.
    underWay.catch(() => {});
  }
  await underWay;
  return {
    carried: { isResumed },
    lastSeq: seq,
    finishedAt: () => row.finishedAt,
    async end() {
      row = { ...row, finishedAt: now() };
      await write.put(row, createBatch(keys.base));
    },
  };
}

/** Starts the counters after those of the file, so that no seq or number is reused. */
function beginning(keys: Keys, source: Source, seq: number): Batch {
  const batch = createBatch(keys.base);
  const numbers = Math.max(boundsOf(source, "messages").last, boundsOf(source, "runs").last);
  if (seq > 0) batch.set("seq", String(seq));
  if (numbers > 0) batch.set("numbers", String(numbers));
  return batch;
}

function checkSame(row: MigrationRow, { path, identity }: Source, where: string): void {
  if (row.finishedAt !== null && row.file !== identity) {
    throw new StoreRefused(`${where} has the rows of another file, or of this one as it was before (${row.path}); take another prefix`);
  }
  if (row.file === identity) return;
  throw new StoreRefused(
    `${where} has a part of ${row.path} as it was when that migration began; ${path} is another file, or was written since: take another prefix`,
  );
}

/** Writes batches, each only if the previous one is still the last. */
function createWrite(keys: Keys, link: RedisLink, { version, seq, where }: { version: () => string; seq: number; where: string }) {
  let known = "";

  async function write(row: MigrationRow, batch: Batch): Promise<void> {
    const next = version();
    const list = [keys.base, known, next + JSON.stringify(row), String(seq), ...batch.words()];
    known = next;
    const answer = await link.run((redis) => script.run(redis, `${keys.base}seq`, list));
    if (answer === "used") throw new StoreRefused(`${where} is in use: a relay has stored there before; take another prefix`);
    if (answer === "stale") throw new StoreRefused(`another migration writes under ${where}`);
    if (answer === "stored") {
      throw new StoreRefused(`a relay has stored events under ${where} meanwhile; stop it, and begin again under another prefix`);
    }
  }

  return {
    begin: write,
    put: write,
    goOn(from: string): void {
      known = from;
    },
  };
}
