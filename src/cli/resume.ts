import type { Command } from "commander";
import type { Io } from "./io.ts";
import { givenArgument, withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import { withRelay } from "./relay.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .argument("[route]", "name of the route", givenArgument)
    .option(
      "--account <name>",
      "instead of a route: call the service again for this account, whose quota was used up",
      givenArgument,
    )
    .option("--json", "print {route, resumed} as JSON; with --account {account, resumed, ended}")
    .addHelpText(
      "after",
      `
If the destination's circuit breaker is open, one delivery goes out at once. If it succeeds, the others follow.
With --account it ends the stops of the account's used-up quotas. The relay on a SQLite file must run for that.

Examples:
  wamid-relay doctor                      shows stopped and paused destinations and accounts
  wamid-relay resume failures-to-crm
  wamid-relay resume --account main       after a change of plan at the service`,
    )
    .action(async (route, options) => {
      const { account } = options;
      if ((route === undefined) === (account === undefined))
        command.error("error: give exactly one of a route and --account <name>");
      if (account !== undefined) {
        const answer = await withRelay(
          command,
          options,
          io,
          "replay",
          (client) => client.resumeAccount({ account }),
          "service",
        );
        print(io, options, answer, ({ resumed, ended }) => [
          resumed
            ? `${account}: called again (was stopped: ${ended.join(", ")})`
            : `${account}: was not stopped`,
        ]);
      } else if (route !== undefined) {
        const answer = await withRelay(command, options, io, "replay", (client) =>
          client.resumeRoute({ route }),
        );
        print(io, options, answer, ({ resumed }) => [
          `${route}: ${resumed ? "started again" : "was neither stopped nor paused, and its breaker was not open"}`,
        ]);
      }
    });
}
