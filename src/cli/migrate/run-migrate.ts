import type { MigrationReport } from "../../app/migrating.ts";
import { offenderLines, verdictLine } from "../audit/report.ts";
import { auditSchema } from "../audit/views.ts";
import { CommandFailed, type Io } from "../io.ts";
import type { MigrateOptions } from "../migrate-command.ts";
import { printable, printableJson, tableLines } from "../output.ts";
import { createProgressBar } from "../progress.ts";
import { readSettings } from "../settings-option.ts";

/** Carries everything over, and prints the counts of both sides. */
export async function runMigrate({ config, from: path, json = false }: MigrateOptions, io: Io): Promise<void> {
  const { storage, accounts } = readSettings(config, io);
  if (storage.driver !== "redis") {
    throw new CommandFailed(
      `${config} has storage.driver ${storage.driver}; give the settings that the relays on Redis will have (driver: redis)`,
    );
  }
  const [{ migrate }, { StoreRefused, StoreUnavailable }] = await Promise.all([
    import("../../app/migrating.ts"),
    import("../../store/store-error.ts"),
  ]);
  const bar = createProgressBar(io, json);
  const report = await migrate({ path, storage, accounts, progress: bar.show })
    .catch((error: unknown) => {
      if (error instanceof StoreRefused) throw new CommandFailed(error.message);
      if (error instanceof StoreUnavailable) throw new CommandFailed(`${error.message}; the same command goes on where it was`);
      throw error;
    })
    .finally(bar.end);
  const audit = report.audit === null ? null : auditSchema.parse({ ...report.audit, at: new Date(report.audit.at).toISOString() });
  const finishedAt = report.finishedAt === null ? null : new Date(report.finishedAt).toISOString();
  if (json) io.out(printableJson({ ...report, audit, finishedAt }));
  else for (const line of reportLines(report, path, storage.prefix)) io.out(printable(line));
  if (report.finishedAt === null) {
    throw new CommandFailed(`the counts differ; no relay starts on prefix ${storage.prefix}: take another one, and keep both for a look`);
  }
  if (audit === null) return;
  if (!json) io.out(`audit of Redis: ${verdictLine(audit)}`);
  if (audit.balanced) return;
  for (const line of offenderLines(audit)) io.err(line);
  process.exitCode = 1;
}

function reportLines({ result, finishedAt, counts, tookMs }: MigrationReport, path: string, prefix: string): string[] {
  if (result === "before") {
    const at = finishedAt === null ? "" : ` at ${new Date(finishedAt).toISOString()}`;
    return [`${path} was carried over to prefix ${prefix} before${at}: nothing was written`];
  }
  const shown = counts.filter(({ file, redis }) => file > 0 || redis > 0);
  const grouped = (value: number): string => value.toLocaleString("en-US");
  const rows = shown.map(({ kind, file, redis }) => [kind, grouped(file), grouped(redis), file === redis ? "" : "differs"]);
  const took = `${(tookMs / 1000).toFixed(1)} s`;
  const what = result === "resumed" ? "the rest of it was carried over" : "carried over";
  return [...tableLines(["KIND", "FILE", "REDIS", ""], rows), "", `${path} → prefix ${prefix}: ${what} in ${took}`];
}
