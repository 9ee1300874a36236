import { type Command, InvalidArgumentError, Option } from "commander";
import type { MigrationReport } from "../app/migrate.ts";
import { CommandFailed, type Io } from "./io.ts";
import { choice, type SettingsOptions, withConfigOption } from "./options.ts";
import { printable, printableJson, tableLines, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";

interface Options extends SettingsOptions {
  /** The file's path. */
  readonly from: string;
  readonly to: "redis";
  readonly json?: boolean;
}

/** Default path of the embedded engine's file. */
const defaultPath = "data/relay.db";

/** Adds `migrate`: everything in the embedded engine's file is carried over to Redis. */
export function build(command: Command, io: Io): void {
  withConfigOption(command)
    .addOption(
      new Option("--from <sqlite>", `what to copy: sqlite, or sqlite:<path of the file> (default path: ${defaultPath})`)
        .argParser(sqliteFile)
        .makeOptionMandatory(),
    )
    .addOption(choice("--to <redis>", "where to: the Redis of the settings", ["redis"]).makeOptionMandatory())
    .option("--json", "print {result, finishedAt, counts, audit, tookMs} as JSON")
    .addHelpText(
      "after",
      `
Stop the relay on the file first. Use the settings file that the relays on Redis will have; nothing may be stored under
its prefix. The command only reads the file. It resumes after an interruption; until it ends, no relay starts on that prefix.

Exit codes:
  0  both sides have the same counts, and the audit of Redis balances
  1  they do not, or the copy failed

Examples:
  wamid-relay migrate --from sqlite --to redis
  wamid-relay migrate --from sqlite:/var/lib/wamid-relay/relay.db --to redis --config /etc/wamid-relay/relay.yaml`,
    )
    .action((options: Options) => runMigrate(options, io));
}

function sqliteFile(text: string): string {
  const [driver, ...path] = text.split(":");
  if (driver !== "sqlite" || (path.length > 0 && path.join(":") === "")) {
    throw new InvalidArgumentError("It must be sqlite, or sqlite: and the path of the file.");
  }
  return path.length === 0 ? defaultPath : path.join(":");
}

/** Carries everything over, and prints the counts of both sides. */
async function runMigrate({ config, envFile, from: path, json = false }: Options, io: Io): Promise<void> {
  const { readSettings } = await import("./settings-option.ts");
  const { storage, accounts } = readSettings({ config, envFile }, io);
  if (storage.driver !== "redis") {
    throw new CommandFailed(
      `${config} has storage.driver ${storage.driver}; give the settings that the relays on Redis will have (driver: redis)`,
    );
  }
  const [{ migrate }, { StoreRefused, StoreUnavailable }, { offenderLines, verdictLine }] = await Promise.all([
    import("../app/migrate.ts"),
    import("../store/port.ts"),
    import("./audit.ts"),
  ]);
  const bar = createProgressBar(io, json);
  const report = await migrate({ path, storage, accounts, progress: bar.show })
    .catch((error: unknown) => {
      if (error instanceof StoreRefused) throw new CommandFailed(error.message);
      if (error instanceof StoreUnavailable) throw new CommandFailed(`${error.message}; the same command goes on where it was`);
      throw error;
    })
    .finally(bar.end);
  const audit = report.audit === null ? null : { ...report.audit, at: new Date(report.audit.at).toISOString() };
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
  const rows = shown.map(({ kind, file, redis }) => [kind, withCommas(file), withCommas(redis), file === redis ? "" : "differs"]);
  const took = `${(tookMs / 1000).toFixed(1)} s`;
  const what = result === "resumed" ? "the rest of it was carried over" : "carried over";
  return [...tableLines(["KIND", "FILE", "REDIS", ""], rows), "", `${path} → prefix ${prefix}: ${what} in ${took}`];
}
