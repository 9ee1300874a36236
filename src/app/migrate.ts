import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { AccountSettings } from "../config/schema.ts";
import type { AuditReport } from "../model/audit.ts";
import { systemClock } from "../model/system-clock.ts";
import { relayVersion } from "../model/version.ts";
import { callKinds } from "../service/limits/slots.ts";
import { carryOver } from "../store/migrate/carry.ts";
import { countBoth, type KindCount } from "../store/migrate/check.ts";
import { openSource, type Source } from "../store/migrate/source.ts";
import { StoreRefused } from "../store/port.ts";
import type { RedisLink } from "../store/redis/client.ts";
import { connectRedis, type RedisConnection, redisAddress } from "../store/redis/connection.ts";
import { checkSchema } from "../store/redis/schema.ts";
import { createRedisClock, readPresences } from "../store/redis/server.ts";
import { createRedisCaps } from "../store/redis/shared-limits.ts";
import type { RedisSettings } from "../store/settings.ts";
import { createRecentCalls } from "../store/sqlite/notes.ts";
import { openRedisForReading } from "./open-redis.ts";

export interface MigratingParts {
  /** The file of the embedded engine. */
  readonly path: string;
  readonly storage: RedisSettings;
  readonly accounts: Readonly<Record<string, Pick<AccountSettings, "baseUrl">>>;
  /** `part` of the current step is done, from 0 to 1. */
  readonly progress: (part: number, text: string) => void;
}

export interface MigrationReport {
  /** `before`: an earlier run had ended it, and nothing was written. */
  readonly result: "carried" | "resumed" | "before";
  /** Unix ms at which it ended; null: the counts differ, and relays do not start on it. */
  readonly finishedAt: number | null;
  /** Empty when nothing was written. */
  readonly counts: readonly KindCount[];
  /** Of the rows in Redis; null unless this run ended the migration. */
  readonly audit: AuditReport | null;
  /** The copying alone, without the checks. */
  readonly tookMs: number;
}

/** Offenders listed; the others are counted. */
const mostOffenders = 100;

const grouped = (value: number): string => value.toLocaleString("en-US");

/**
 * Copies the file's rows to Redis, or resumes that, counts both sides, and audits Redis. Throws `StoreRefused` when either
 * side is in use or unsuitable, and `StoreUnavailable` when Redis becomes unavailable.
 */
export async function migrate({ path, storage, accounts, progress }: MigratingParts): Promise<MigrationReport> {
  const source = openSource(path);
  try {
    const connection = await connect(storage);
    try {
      return await carryAndCheck(source, connection, { path, storage, accounts, progress });
    } finally {
      await connection.close();
    }
  } finally {
    source.close();
  }
}

async function carryAndCheck(
  source: Source,
  connection: RedisConnection,
  { storage, accounts, progress }: MigratingParts,
): Promise<MigrationReport> {
  const { prefix } = storage;
  const startedAt = performance.now();
  const migration = await carryOver({
    source,
    link: connection,
    prefix,
    now: systemClock.now,
    prepare: () => refuseRunning(connection, storage),
    progress: (part, { kind, at, last }) => progress(part, `${kind}: ${grouped(at)} of ${grouped(last)}`),
  });
  const tookMs = Math.round(performance.now() - startedAt);
  const { carried } = migration;
  if (carried === null) return { result: "before", finishedAt: migration.finishedAt(), counts: [], audit: null, tookMs };

  const result = carried.isResumed ? "resumed" : "carried";
  const counts = await countBoth({
    source,
    link: connection,
    prefix,
    progress: (seq) => progress(seq / Math.max(1, migration.lastSeq), `counting: ${grouped(seq)} of ${grouped(migration.lastSeq)} events`),
  });
  if (counts.some(({ file, redis }) => file !== redis)) return { result, finishedAt: null, counts, audit: null, tookMs };
  await carryRecentCalls(source, connection, { prefix, accounts, now: systemClock.now() });
  // A relay may have started since the first check.
  await refuseRunning(connection, storage);
  await migration.end();
  const audit = await auditRedis(storage, progress);
  return { result, finishedAt: migration.finishedAt(), counts, audit, tookMs };
}

async function connect(storage: RedisSettings): Promise<RedisConnection> {
  const presence = {
    id: randomUUID(),
    role: "command",
    host: hostname(),
    pid: process.pid,
    version: relayVersion(),
    since: Date.now(),
  } as const;
  const connection = connectRedis(
    storage,
    { clock: createRedisClock(systemClock), presence, name: "wamid-relay migrate" },
    { greet: (redis) => checkSchema(redis, storage.prefix) },
  );
  try {
    const state = await connection.opened();
    if (state.kind !== "up") throw new StoreRefused(`${redisAddress(storage)}: ${state.fault.message}`);
    return connection;
  } catch (error) {
    await connection.close();
    throw error;
  }
}

async function refuseRunning(connection: RedisConnection, { prefix }: RedisSettings): Promise<void> {
  const found = await connection.run((redis) => readPresences(redis, prefix));
  const [relay] = found.filter(({ role }) => role !== "command");
  if (relay === undefined) return;
  throw new StoreRefused(
    `a relay runs on prefix ${prefix} of this Redis (process ${relay.pid} on ${relay.host}); stop it, and migrate then (one that was killed is believed to run for ten seconds)`,
  );
}

async function auditRedis(storage: RedisSettings, progress: MigratingParts["progress"]): Promise<AuditReport> {
  const { inspecting, now, close } = await openRedisForReading(storage);
  try {
    return await inspecting.audit({ now: now(), isRunning: false, mostOffenders }, ({ checked, of }) =>
      progress(of === 0 ? 0 : checked / of, `audit: ${grouped(checked)} of ${grouped(of)} events`),
    );
  } finally {
    await close();
  }
}

interface Target {
  readonly prefix: string;
  readonly accounts: Readonly<Record<string, Pick<AccountSettings, "baseUrl">>>;
  /** Unix ms. */
  readonly now: number;
}

/** A call counts against the caps for a minute after its end, which is at most ten seconds after its dispatch. */
const countsMs = 60_000;
const tookMs = 10_000;

/** Counts the calls of the last minute against the shared caps. Repeating it changes nothing. */
export async function carryRecentCalls({ db, names }: Source, link: RedisLink, { prefix, accounts, now }: Target): Promise<void> {
  const recent = createRecentCalls(db, names);
  for (const [account, { baseUrl }] of Object.entries(accounts)) {
    if (baseUrl === undefined) continue;
    const ended = recent.since(account, now - countsMs - tookMs).map(({ at, cap, priority }, index) => ({
      id: `file:${at}-${index}`,
      kind: callKinds.findIndex((kind) => kind.cap === cap && kind.priority === priority),
      how: "answered" as const,
      ageMs: now - Math.min(at, now) - tookMs,
    }));
    if (ended.length === 0) continue;
    await createRedisCaps(link, prefix, account, baseUrl).step({
      holder: "file",
      born: "",
      // Requests no slots.
      limits: { requests: 1, messages: 1, asks: 1, polls: 1 },
      atOnce: { all: 1, others: 1 },
      graceMs: 0,
      wants: callKinds.map(() => 0),
      room: { all: 0, others: 0 },
      firstId: 1,
      ended,
      renewed: [],
      version: 0,
      next: null,
    });
  }
}
