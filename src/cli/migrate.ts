import { type Command, InvalidArgumentError } from "commander";
import type { MigrationReport } from "../app/migrate.ts";
import type { StorageSettings } from "../store/settings.ts";
import { answered, printVerdict } from "./audit.ts";
import { CommandFailed, type Io } from "./io.ts";
import { withConfigOption } from "./options.ts";
import { print, secondsText, tableLines, withCommas } from "./output.ts";
import { createProgressBar } from "./progress.ts";
import type { OptionsOf } from "./typed.ts";

/** Of SQLite a path; the PostgreSQL is that of the settings. */
type Place = { readonly driver: "sqlite"; readonly path: string } | { readonly driver: "postgres" };

const defaultPath = "data/relay.db";

export function build(command: Command, io: Io): void {
  declare(command).action((options) => runMigrate(options, io));
}

function declare(command: Command) {
  return withConfigOption(command)
    .requiredOption(
      "--from <store>",
      `what to copy: sqlite:<path of the file>, sqlite (${defaultPath}), or postgres (of the settings)`,
      placeOf,
    )
    .requiredOption("--to <store>", "where to: the same", placeOf)
    .option("--json", "print {result, finishedAt, counts, closedMs, audit, tookMs} as JSON")
    .addHelpText(
      "after",
      `
Relays may use the source meanwhile. They accept and deliver until the last pass; from then on webhooks get 503, and
the sender repeats them. Then stop these relays, and start others on the target.

The settings file has storage.driver postgres. The target must be empty. After an interruption, such as Ctrl-C, the relays
go on as before, and the same command resumes. Until it ends, no relay starts on the target; from then on, none starts on
the source.

Exit codes:
  0  both sides have the same counts, and the audit of the target balances
  1  the copy failed, or the counts differ
  3  the audit of the target does not balance, and standard error names the rows

Examples:
  wamid-relay migrate --from sqlite --to postgres
  wamid-relay migrate --from postgres --to sqlite:/var/lib/wamid-relay/relay.db --config /etc/wamid-relay/relay.yaml`,
    );
}

function placeOf(text: string): Place {
  const [driver, ...path] = text.split(":");
  if (text === "postgres") return { driver: "postgres" };
  if (driver !== "sqlite" || (path.length > 0 && path.join(":") === "")) {
    throw new InvalidArgumentError("It must be postgres, or sqlite: and the path of the file.");
  }
  return { driver: "sqlite", path: path.length === 0 ? defaultPath : path.join(":") };
}

async function runMigrate(
  { config, envFile, from, to, json = false }: OptionsOf<typeof declare>,
  io: Io,
): Promise<void> {
  if (from.driver === to.driver)
    throw new CommandFailed(
      `--from and --to are both ${from.driver}; one must be sqlite, the other postgres`,
    );
  const { readSettings } = await import("./settings-option.ts");
  const { storage } = readSettings({ config, envFile }, io);
  if (storage.driver !== "postgres") {
    throw new CommandFailed(
      `${config} has storage.driver ${storage.driver}; give settings with storage.driver postgres`,
    );
  }
  const [{ migrate }, { storePlace }, { StoreUnavailable }] = await Promise.all([
    import("../app/migrate.ts"),
    import("../app/engine.ts"),
    import("../store/port.ts"),
  ]);
  const at = (place: Place): StorageSettings => (place.driver === "sqlite" ? place : storage);
  const bar = createProgressBar(io, json);
  const report = await migrate({ from: at(from), to: at(to), progress: bar.show })
    .catch((error: unknown) => {
      if (error instanceof StoreUnavailable)
        throw new CommandFailed(`${error.message}; the same command goes on where it was`);
      throw error;
    })
    .finally(bar.end);
  const audit = report.audit && (await answered(report.audit));
  const finishedAt = report.finishedAt === null ? null : new Date(report.finishedAt).toISOString();
  const names = { from: storePlace(at(from)), to: storePlace(at(to)) };
  print(io, { json }, { ...report, audit, finishedAt }, () => reportLines(report, names));
  if (report.finishedAt === null) {
    throw new CommandFailed(
      `the counts differ; no relay starts on ${names.to}: take another target, and keep both for a look`,
    );
  }
  if (audit === null) return;
  printVerdict(io, { json }, audit, "audit of the target: ");
}

interface Names {
  readonly from: string;
  readonly to: string;
}

function reportLines(
  { result, finishedAt, counts, closedMs, tookMs }: MigrationReport,
  { from, to }: Names,
): string[] {
  if (result === "before") {
    const at = finishedAt === null ? "" : ` at ${new Date(finishedAt).toISOString()}`;
    return [`${from} was copied to ${to} before${at}: nothing was written`];
  }
  return [
    ...tableLines(
      counts.filter((count) => count.from > 0 || count.to > 0),
      {
        TABLE: ({ table }) => table,
        FROM: (count) => withCommas(count.from),
        TO: (count) => withCommas(count.to),
        "": (count) => (count.from === count.to ? null : "differs"),
      },
    ),
    "",
    `${from} → ${to}: ${result === "resumed" ? "the rest was copied" : "copied"} in ${secondsText(tookMs)}`,
    `relays on ${from} could not write in the last ${secondsText(closedMs)}; stop them, and start others on ${to}`,
  ];
}
