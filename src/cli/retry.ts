import type { Command } from "commander";
import type { Retried } from "../client/relay-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { givenArgument, withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import { noteWithoutRelay, withRelay } from "./relay.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .argument(
      "<delivery...>",
      "delivery ids, as deliveries list shows them",
      (id, before: string[] = []) => [...before, givenArgument(id)],
    )
    .option("--json", "print the result of each as JSON")
    .addHelpText(
      "after",
      `
If no relay runs on the SQLite file, the deliveries go out at its next start. The delivery id stays the same, so downstream
can dedupe. "replay" sends many by a filter. Exit code 1: the route of a delivery is not in the settings, or it is proxied.

States:
  dead, delivered  waits again, with all its attempts
  waiting          goes out at once
  held             stays behind the earlier delivery of its message

Examples:
  wamid-relay retry dlv_01998d3e7c1a7000800000000000002a_3c7a1014837c
  wamid-relay deliveries list --state dead --json | jq -r '.data[].id' | xargs wamid-relay retry`,
    )
    .action(async (ids, options) => {
      const { RelayClientError } = await import("../client/connection.ts");
      const data: (Retried | { readonly id: string; readonly error: string })[] = [];
      await withRelay(command, options, io, "replay", async (client) => {
        for (const id of ids) {
          try {
            data.push(await client.retryDelivery({ id }));
          } catch (error) {
            // A delivery that cannot be retried is no reason to leave the others; a token without
            // the scope is.
            if (
              !(error instanceof RelayClientError && (error.status === 404 || error.status === 409))
            )
              throw error;
            const { code, message } = error;
            data.push({
              id,
              error:
                code === "not_found"
                  ? `${message}; "wamid-relay deliveries list" lists the ids`
                  : message,
            });
          }
        }
        if (data.some((each) => "state" in each)) noteWithoutRelay(client, io);
      });
      print(io, options, { data }, () =>
        data.flatMap((each) => ("error" in each ? [] : [retriedLine(each)])),
      );
      const failed = data.flatMap((each) => ("error" in each ? [`${each.id}: ${each.error}`] : []));
      if (failed.length > 0) throw new CommandFailed(failed.join("\n"));
    });
}

function retriedLine({ id, route, state, previousState, stopped, pausedUntil }: Retried): string {
  const what = previousState === state ? `${state}` : `${previousState} → ${state}`;
  const wait =
    stopped !== null
      ? `; the destination is stopped (${stopped}), start it with: wamid-relay resume ${route}`
      : pausedUntil !== null
        ? `; the destination is paused until ${pausedUntil} (429), start it earlier with: wamid-relay resume ${route}`
        : state === "held"
          ? "; goes after an earlier one of its message"
          : "";
  return `${id}  ${what}${wait}`;
}
