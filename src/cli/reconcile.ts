import type { Command } from "commander";
import type { Io } from "./io.ts";
import { type RelayOptions, withRelayOptions } from "./options.ts";

export interface ReconcileOptions extends RelayOptions {
  readonly account?: string;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/** Adds `reconcile`: one pass over the messages whose status went quiet. */
export function addReconcileCommand(program: Command, io: Io): void {
  const reconcile = withRelayOptions(program.command("reconcile"));
  reconcile
    .description("ask the service about messages whose status went quiet, and repair what webhooks lost")
    .option("--account <name>", "this account only")
    .option("--dry-run", "only say what would be asked")
    .option("--json", "print {accounts} as JSON")
    .addHelpText(
      "after",
      `
With a relay running, it asks; without one this command does, and what it learned goes out at the next start of "serve".
Exit code 0: all that was due was asked. 1: failed, or the key is refused, or the service cannot be reached. 2: wrong
usage. 3: some was left, so that the month's quota lasts, or because it is used up.

Examples:
  wamid-relay reconcile --dry-run
  wamid-relay reconcile --account main --json
  */10 * * * * wamid-relay reconcile --config /etc/wamid-relay/relay.yaml     (a line of a crontab)`,
    )
    .action(async (options: ReconcileOptions) => {
      const { runReconcile } = await import("./reconcile-run.ts");
      await runReconcile(reconcile, options, io);
    });
}
