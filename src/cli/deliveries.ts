import type { Command } from "commander";
import { chosen, deliveryFilters, groupFilters, withFilters } from "./filters.ts";
import type { Io } from "./io.ts";
import { count, matching, withRelayOptions } from "./options.ts";
import { print, tableLines, timeText } from "./output.ts";
import { printList, withRelay } from "./relay.ts";

export function build(command: Command, io: Io): void {
  buildList(command.command("list"), io);
  buildGroups(command.command("groups"), io);
}

function buildList(command: Command, io: Io): void {
  withFilters(
    withRelayOptions(command).description("list deliveries, those of the newest events first"),
    deliveryFilters,
  )
    .option("--limit <count>", "most rows", count, 50)
    .option("--before <place>", "next of the previous page", place)
    .option("--show-pii", "show ids in clear that contain a wamid or a phone number")
    .option("--json", "print {data, next} as JSON; next is for --before, null at the end")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay deliveries list --state dead
  wamid-relay deliveries list --route failures-to-crm --state waiting --limit 200
  wamid-relay deliveries list --state dead --json | jq -r '.data[].id' | xargs wamid-relay retry`,
    )
    .action(async (options) => {
      const filter = chosen(command, options, deliveryFilters);
      await printList(
        command,
        options,
        io,
        (client, place) => client.listDeliveries({ ...filter, ...place }),
        "more",
        {
          EVENT: ({ event }) => event,
          ROUTE: ({ route }) => route,
          STATE: ({ state }) => state,
          ATTEMPTS: ({ attempts }) => attempts,
          "NEXT OR SETTLED (UTC)": ({ nextAt, settledAt }) => timeText(nextAt ?? settledAt),
          ID: ({ id }) => id,
          REASON: ({ reason, state, cause }) =>
            reason ??
            (state === "held"
              ? "behind an earlier delivery of its message"
              : state === "waiting"
                ? cause
                : null),
        },
      );
    });
}

function buildGroups(command: Command, io: Io): void {
  withFilters(
    withRelayOptions(command).description("count undelivered deliveries by route, state and cause"),
    groupFilters,
  )
    .option("--json", "print {data} as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay deliveries groups
  wamid-relay deliveries groups --state dead`,
    )
    .action(async (options) => {
      const filter = chosen(command, options, groupFilters);
      const found = await withRelay(command, options, io, "read", (client) =>
        client.groupDeliveries(filter),
      );
      if (found.data.length === 0 && options.json !== true)
        io.err("no undelivered delivery matches");
      print(io, options, found, ({ data }) =>
        tableLines(data, {
          ROUTE: ({ route }) => route,
          STATE: ({ state }) => state,
          CAUSE: ({ cause }) => cause,
          DELIVERIES: ({ count }) => count,
          "OLDEST (UTC)": ({ oldestAt }) => timeText(oldestAt),
          "NEWEST (UTC)": ({ newestAt }) => timeText(newestAt),
        }),
      );
    });
}

const place = matching(/^\d{1,15}\..{0,200}$/, "It must be the next that a page gave.");
