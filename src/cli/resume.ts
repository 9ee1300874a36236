import type { Command } from "commander";
import type { ControlClient } from "./control-client.ts";
import type { Io } from "./io.ts";
import { givenArgument, withRelayOptions } from "./options.ts";
import { print } from "./output.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .argument("[route]", "name of the route", givenArgument)
    .option(
      "--account <name>",
      "instead of a route: call the messaging service again for this account, whose quota was used up",
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
      if (route === undefined && options.account === undefined)
        command.error("error: missing required argument 'route', or --account <name>");
      if (route !== undefined && options.account !== undefined) command.error("error: give either a route or --account, not both");
      const { withRelay } = await import("./reach-relay.ts");
      const { account } = options;
      const resume = async (client: ControlClient): Promise<void> => {
        if (account !== undefined) {
          const { resumed, ended } = await client.resumeAccount({ account });
          print(io, options, { account, resumed, ended }, () => [
            resumed ? `${account}: called again (was stopped: ${ended.join(", ")})` : `${account}: was not stopped`,
          ]);
          return;
        }
        const { resumed } = await client.resumeRoute({ route: route ?? "" });
        print(io, options, { route, resumed }, () => [
          `${route}: ${resumed ? "started again" : "was neither stopped nor paused, and its breaker was not open"}`,
        ]);
      };
      await withRelay(command, options, io, "replay", resume, account === undefined ? "store" : "service");
    });
}
