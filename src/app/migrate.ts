import { existsSync } from "node:fs";
import { hostname } from "node:os";
import type { AuditReport } from "../model/audit.ts";
import { systemClock } from "../model/clock.ts";
import { type CopyReport, type CopySource, type CopyTarget, copyStore } from "../store/copy.ts";
import { StoreRefused } from "../store/port.ts";
import { openPostgresSource, openPostgresTarget } from "../store/postgres/copy-side.ts";
import { postgresName, type StorageSettings } from "../store/settings.ts";
import { openSqliteSource, openSqliteTarget } from "../store/sqlite/copy-side.ts";
import { createCleanup } from "./engine.ts";
import { postgresSettings } from "./open-postgres.ts";
import { openStoreForReading } from "./open-store.ts";

interface MigratingParts {
  readonly from: StorageSettings;
  readonly to: StorageSettings;
  /** `part` of the current step is done, from 0 to 1. */
  readonly progress: (part: number, text: string) => void;
}

export interface MigrationReport extends CopyReport {
  /** Of the copied rows; null unless this run ended the migration. */
  readonly audit: AuditReport | null;
  /** The copying alone, without the audit. */
  readonly tookMs: number;
}

const grouped = (value: number): string => value.toLocaleString("en-US");

/**
 * Copies a store into an empty one, or resumes that, counts both sides, and audits the copy. Relays
 * may use the source. Throws `StoreRefused` when a side is unsuitable, and `StoreUnavailable` when
 * a server becomes unavailable.
 */
export async function migrate({ from, to, progress }: MigratingParts): Promise<MigrationReport> {
  if (from.driver === "sqlite" && !existsSync(from.path))
    throw new StoreRefused(`there is no store at ${from.path}`);
  const startedAt = performance.now();
  const report = await copy({ from, to, progress });
  const tookMs = Math.round(performance.now() - startedAt);
  const isNew = report.result !== "before" && report.finishedAt !== null;
  return { ...report, audit: isNew ? await audit(to, progress) : null, tookMs };
}

async function copy({ from, to, progress }: MigratingParts): Promise<CopyReport> {
  await using sides = createCleanup();
  return await copyStore({
    from: sides.adopt(await openSource(from), (source) => source.close()),
    to: sides.adopt(await openTarget(to), (target) => target.close()),
    now: systemClock.now,
    progress: (walk, table, done, of) =>
      progress(
        of === 0 ? 1 : done / of,
        `${walkText(walk)} ${table}: ${grouped(done)} of ${grouped(of)}`,
      ),
  });
}

const walkText = (walk: number | "last"): string => {
  if (walk === "last") return "last pass, relays stopped:";
  return walk === 1 ? "copying" : `copying changes, pass ${walk}:`;
};

async function openSource(storage: StorageSettings): Promise<CopySource> {
  return storage.driver === "postgres"
    ? openPostgresSource(postgresSettings(storage), postgresName(storage))
    : openSqliteSource(storage.path);
}

async function openTarget(storage: StorageSettings): Promise<CopyTarget> {
  if (storage.driver === "postgres")
    return openPostgresTarget(postgresSettings(storage), postgresName(storage));
  return openSqliteTarget(
    storage.path,
    `"wamid-relay migrate", process ${process.pid} on ${hostname()}`,
  );
}

async function audit(
  storage: StorageSettings,
  progress: MigratingParts["progress"],
): Promise<AuditReport> {
  const { inspecting, now, close } = await openStoreForReading(storage);
  try {
    return await inspecting.audit({ now: now(), isRunning: false }, ({ checked, of }) =>
      progress(of === 0 ? 0 : checked / of, `audit: ${grouped(checked)} of ${grouped(of)} events`),
    );
  } finally {
    await close();
  }
}
