import { access, constants, readdir, rm, stat } from "node:fs/promises";
import { basename, join } from "node:path";
import { createTimetable } from "../model/schedule.ts";
import { backUp, inWords, ofPartial, partialLastsMs, timeInName } from "../store/sqlite/backup.ts";
import { makeFolder } from "../store/sqlite/file.ts";
import type { FailedBackup } from "../store/work/state-rows.ts";
import type { Background } from "./store.ts";
import type { Supervised } from "./supervise.ts";

export interface Backups extends Supervised {
  /** Null: the last backup was made, or none was due yet and `backup.folder` can be written. */
  failure(): FailedBackup | null;
}

export interface BackupsParts extends Pick<Background, "settings" | "clock" | "supervise" | "log"> {
  readonly path: string;
  readonly store: Pick<Background["store"], "failedBackup" | "noteBackup">;
  readonly metrics: Pick<Background["metrics"], "backup">;
}

/**
 * Makes scheduled backups. One that fails is logged and counted, and the next is made as scheduled.
 * Those that were due while the relay was stopped are not made up.
 */
export function startBackups({
  settings,
  path,
  store,
  clock,
  supervise,
  log,
  metrics: { backup: metrics },
}: BackupsParts): Backups {
  const names = backupNames(path);
  const timetable = createTimetable(clock.now);
  let failure: FailedBackup | null = null;
  /** The folder that was looked into; null while no backups are scheduled. */
  let known: string | null = null;

  async function run(signal: AbortSignal): Promise<number> {
    const { schedule, folder } = settings().backup;
    const next = schedule === "off" ? null : folder;
    if (next !== known) {
      const stored = await store.failedBackup();
      known = next;
      failure = stored?.folder === next ? stored : null;
      if (next !== null) await lookInto(next).catch((error: unknown) => failed(next, error));
    }
    const { isDue, waitMs } = timetable(schedule);
    if (!isDue) return waitMs;
    await backUpNow(signal);
    // Planned anew, because it takes its time.
    return timetable(schedule).waitMs;
  }

  function failed(folder: string, error: unknown): void {
    failure = {
      folder,
      since: failure?.since ?? clock.now(),
      text: inWords(error, folder).message,
    };
  }

  /**
   * At once, because the first backup may be due in a week. A restart does not reset the time of
   * the last one.
   */
  async function lookInto(folder: string): Promise<void> {
    makeFolder(folder, 0o700);
    await access(folder, constants.W_OK);
    const newest = (await readdir(folder)).filter(names.isBackup).toSorted().at(-1);
    if (newest !== undefined) metrics.success.set(names.timeOf(newest) / 1000);
  }

  async function backUpNow(signal: AbortSignal): Promise<void> {
    const { folder, keep } = settings().backup;
    const file = join(folder, names.nameAt(clock.now()));
    try {
      makeFolder(folder, 0o700);
      await removePartials(folder);
      const { at, bytes, audit, tookMs } = await backUp({
        path,
        file,
        replace: false,
        now: clock.now,
        progress: () => {},
        signal,
      });
      metrics.seconds.set(tookMs / 1000);
      metrics.bytes.set(bytes);
      // Otherwise faulty backups would replace the good ones.
      const removed = audit.balanced ? await removeOld(folder, keep) : 0;
      const line = { file, bytes, tookMs, events: audit.rows.events, removed };
      if (audit.balanced) {
        metrics.success.set(at / 1000);
        failure = null;
        log.info(line, "backup made");
      } else {
        metrics.failures.inc();
        failed(
          folder,
          new Error(`the sums of the rows of ${file} do not match: run wamid-relay audit`),
        );
        log.error(
          { ...line, broken: audit.broken },
          "backup made, but the sums of its rows do not match: run wamid-relay audit",
        );
      }
    } catch (error) {
      if (signal.aborted) return;
      metrics.failures.inc();
      failed(folder, error);
      log.error({ err: error, file }, "backup failed");
    }
    // For the next start. The disk may be full.
    await store.noteBackup(failure).catch(() => {});
  }

  /**
   * The newest `keep` stay. Only files with names that `nameAt` gives are removed. Those of times to
   * come count as the oldest: they were made while the clock was ahead, and this one was not.
   */
  async function removeOld(folder: string, keep: number): Promise<number> {
    const all = (await readdir(folder)).filter(names.isBackup).toSorted();
    const now = clock.now();
    const { ahead = [], past = [] } = Object.groupBy(all, (name) =>
      names.timeOf(name) > now ? "ahead" : "past",
    );
    const old = [...ahead, ...past].slice(0, -keep);
    for (const name of old) await rm(join(folder, name), { force: true });
    return old.length;
  }

  async function removePartials(folder: string): Promise<void> {
    for (const name of (await readdir(folder)).filter(names.isPartial)) {
      const file = join(folder, name);
      const { mtimeMs } = await stat(file);
      if (mtimeMs < clock.now() - partialLastsMs) await rm(file, { force: true });
    }
  }

  return { ...supervise({ name: "backups", firstMs: 0, run }), failure: () => failure };
}

/** `relay-20261123T030000Z.db` for a store `relay.db`. */
function backupNames(path: string) {
  const base = basename(path).replace(/\.db$/, "");
  const prefix = `${base}-`;
  const rest = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})Z\.db$/;
  const restOf = (name: string): string =>
    name.startsWith(prefix) ? name.slice(prefix.length) : "";
  const isBackup = (name: string): boolean => rest.test(restOf(name));
  return {
    nameAt: (at: number): string => `${prefix}${timeInName(at)}.db`,
    isBackup,
    isPartial: (name: string): boolean => isBackup(ofPartial.exec(name)?.[1] ?? ""),
    timeOf: (name: string): number => Date.parse(restOf(name).replace(rest, "$1-$2-$3T$4:$5:$6Z")),
  };
}
