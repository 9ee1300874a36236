import { existsSync, readdirSync, rmSync } from "node:fs";
import { basename, extname, join } from "node:path";
import type { Settings } from "../config/schema.ts";
import type { Clock } from "../model/clock.ts";
import { nextRun } from "../model/schedule.ts";
import { fileTime } from "../model/units.ts";
import type { Logger } from "../observe/logger.ts";
import type { Metrics } from "../observe/metrics.ts";
import type { Inspecting } from "../store/reading.ts";
import type { Supervised, Supervisor } from "./supervise.ts";

export interface BackupParts {
  readonly settings: () => Pick<Settings, "backup">;
  /** Path of the SQLite file. */
  readonly path: string;
  readonly backUp: NonNullable<Inspecting["backUp"]>;
  readonly clock: Clock;
  readonly supervise: Supervisor["supervise"];
  readonly log: Pick<Logger, "info" | "error">;
  readonly metrics: Pick<Metrics, "backupSuccess" | "backupSeconds" | "backupBytes" | "backupFailures">;
}

/** A machine that slept, or whose clock was set, is noticed within this time. */
const longestWaitMs = 60_000;

/** Backs the SQLite file up by `backup.schedule`, in the inspecting thread, and keeps the newest `backup.keep` backups. */
export function startBackups({ settings, path, backUp, clock, supervise, log, metrics }: BackupParts): Pick<Supervised, "wake"> {
  const stem = basename(path, extname(path));
  const ours = /^(\d{8})T(\d{2})(\d{2})(\d{2})Z\.db$/;
  let schedule = settings().backup.schedule;
  let dueAt = nextRun(schedule, clock.now());
  try {
    metrics.backupSuccess.set(newest(settings().backup.folder));
  } catch {
    // An unusable folder is reported when a backup fails.
  }

  /** The backups of this store in a folder, oldest first. */
  function backupsIn(folder: string): string[] {
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((file) => file.startsWith(`${stem}-`) && ours.test(file.slice(stem.length + 1)))
      .sort();
  }

  /** Unix seconds of the newest backup, from its name; 0: there is none. */
  function newest(folder: string): number {
    const last =
      backupsIn(folder)
        .at(-1)
        ?.slice(stem.length + 1) ?? "";
    const [, date = "", hours, minutes, seconds] = ours.exec(last) ?? [];
    if (date === "") return 0;
    const day = `${date.slice(0, 4)}-${date.slice(4, 6)}-${date.slice(6)}`;
    return (Date.parse(`${day}T${hours}:${minutes}:${seconds}Z`) || 0) / 1000;
  }

  async function run(signal: AbortSignal): Promise<void> {
    const { folder, keep } = settings().backup;
    const file = join(folder, `${stem}-${fileTime(new Date(clock.now()))}.db`);
    try {
      // A killed process leaves a copy without its name.
      for (const left of existsSync(folder) ? readdirSync(folder) : []) {
        if (left.startsWith(`${stem}-`) && left.includes(".db.partial")) rmSync(join(folder, left), { force: true });
      }
      const { bytes, audit, tookMs } = await backUp(file);
      metrics.backupSuccess.set(Math.floor(clock.now() / 1000));
      metrics.backupSeconds.set(tookMs / 1000);
      metrics.backupBytes.set(bytes);
      const { events, deliveries } = audit.rows;
      log.info({ file, bytes, events, deliveries, balanced: audit.balanced, tookMs: Math.round(tookMs) }, "backup made");
      for (const old of backupsIn(folder).slice(0, -keep)) rmSync(join(folder, old), { force: true });
    } catch (error) {
      if (signal.aborted) return;
      metrics.backupFailures.inc();
      log.error({ err: error, file }, "backup failed");
    }
  }

  return supervise({
    name: "backups",
    firstMs: 0,
    async run(signal) {
      const now = clock.now();
      if (settings().backup.schedule !== schedule) {
        schedule = settings().backup.schedule;
        dueAt = nextRun(schedule, now);
      }
      if (dueAt !== null && dueAt <= now) {
        dueAt = nextRun(schedule, now);
        await run(signal);
      }
      return dueAt === null ? longestWaitMs : Math.min(longestWaitMs, Math.max(0, dueAt - clock.now()));
    },
  });
}
