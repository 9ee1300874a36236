import { type Command, InvalidArgumentError, Option } from "commander";
import type { Io } from "./io.ts";
import { withConfigOption } from "./options.ts";

export interface MigrateOptions {
  readonly config: string;
  /** The file's path. */
  readonly from: string;
  readonly to: "redis";
  readonly json?: boolean;
}

/** Where the embedded engine's file is when nobody says. */
const defaultPath = "data/relay.db";

/** Adds `migrate`: everything in the embedded engine's file is carried over to Redis. */
export function addMigrateCommand(program: Command, io: Io): void {
  const migrate = withConfigOption(program.command("migrate"));
  migrate
    .description("carry everything in the file of driver sqlite over to the Redis of the settings; goes on where it ended")
    .addOption(
      new Option("--from <sqlite>", `what is carried over: sqlite, or sqlite:<path of the file> (without: ${defaultPath})`)
        .argParser(sqliteFile)
        .makeOptionMandatory(),
    )
    .addOption(new Option("--to <redis>", "where to: the Redis that the settings name").choices(["redis"]).makeOptionMandatory())
    .option("--json", "print {result, finishedAt, counts, audit, tookMs} as JSON")
    .addHelpText(
      "after",
      `
Stop the relay on the file first, and give the settings file that the relays on Redis will have. The prefix must be one
that nothing was stored under. Ended in any way, the same command goes on where it was; until it has come to its end
no relay starts on that prefix. It only reads the file. At the end both sides are counted, and Redis is audited.

Examples:
  wamid-relay migrate --from sqlite --to redis
  wamid-relay migrate --from sqlite:/var/lib/wamid-relay/relay.db --to redis --config /etc/wamid-relay/relay.yaml`,
    )
    .action(async (options: MigrateOptions) => {
      const { runMigrate } = await import("./migrate/run-migrate.ts");
      await runMigrate(options, io);
    });
}

function sqliteFile(text: string): string {
  const [driver, ...path] = text.split(":");
  if (driver !== "sqlite" || (path.length > 0 && path.join(":") === "")) {
    throw new InvalidArgumentError("It must be sqlite, or sqlite: and the path of the file.");
  }
  return path.length === 0 ? defaultPath : path.join(":");
}
