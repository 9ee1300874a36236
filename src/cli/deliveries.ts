import { type Command, InvalidArgumentError } from "commander";
import type { RelayDelivery } from "../client/relay-client.ts";
import { chosen, deliveryFilters, groupFilters, withFilters } from "./filters.ts";
import type { Io } from "./io.ts";
import { count, withRelayOptions, withTimeOptions } from "./options.ts";
import { print, printPage, tableLines, timeText } from "./output.ts";
import type { OptionsOf } from "./typed.ts";

export function build(command: Command, io: Io): void {
  const [list, groups] = [command.command("list"), command.command("groups")];
  declareList(list).action((options) => listDeliveries(list, options, io));
  declareGroups(groups).action((options) => groupDeliveries(groups, options, io));
}

function declareList(command: Command) {
  const described = withRelayOptions(command).description("list deliveries, those of the newest events first");
  return withTimeOptions(withFilters(described, deliveryFilters))
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
    );
}

function declareGroups(command: Command) {
  const described = withRelayOptions(command).description("count undelivered deliveries by route, state and cause");
  return withTimeOptions(withFilters(described, groupFilters))
    .option("--json", "print {data} as JSON")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay deliveries groups
  wamid-relay deliveries groups --state dead`,
    );
}

async function groupDeliveries(command: Command, options: OptionsOf<typeof declareGroups>, io: Io): Promise<void> {
  const { timeFilter, withRelay } = await import("./reach-relay.ts");
  const filter = { ...chosen(options, groupFilters), ...timeFilter(command, options) };
  const found = await withRelay(command, options, io, "read", (client) => client.groupDeliveries(filter));
  if (found.data.length === 0 && options.json !== true) io.err("no undelivered delivery matches");
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
}

function place(text: string): string {
  if (!/^\d{1,15}\..{0,200}$/.test(text)) throw new InvalidArgumentError("It must be the next that a page gave.");
  return text;
}

/** Why a delivery is still open; null: nothing has failed yet, or it is settled. */
function openReason({ state, cause }: Pick<RelayDelivery, "state" | "cause">): string | null {
  if (state === "held") return "behind an earlier delivery of its message";
  return state === "waiting" ? cause : null;
}

async function listDeliveries(command: Command, options: OptionsOf<typeof declareList>, io: Io): Promise<void> {
  const { readPages, timeFilter, withRelay } = await import("./reach-relay.ts");
  const { route, before, limit } = options;
  const filter = { ...chosen(options, deliveryFilters), ...timeFilter(command, options) };
  const found = await withRelay(command, options, io, "read", (client) =>
    readPages((place) => client.listDeliveries({ ...filter, ...place }), limit, before),
  );
  if (found.data.length === 0 && found.next === null && route !== undefined) {
    const { printHints } = await import("./hints.ts");
    await printHints({ route }, options, io);
  }
  printPage(io, options, found, "more", {
    EVENT: ({ event }) => event,
    ROUTE: ({ route }) => route,
    STATE: ({ state }) => state,
    ATTEMPTS: ({ attempts }) => attempts,
    "NEXT OR SETTLED (UTC)": ({ nextAt, settledAt }) => timeText(nextAt ?? settledAt),
    ID: ({ id }) => id,
    REASON: (each) => each.reason ?? openReason(each),
  });
}
