import { type Command, Option } from "commander";
import { z } from "zod";
import { deliveryStates } from "../event/delivery.ts";
import { deliverySchema } from "./control-views.ts";
import type { Io } from "./io.ts";
import { printableJson } from "./printable.ts";
import { type RelayOptions, withReading, withRelayOptions } from "./reach-relay.ts";
import { readPages } from "./read-pages.ts";
import { tableLines } from "./table.ts";
import { count, timeText } from "./time-options.ts";

interface Options extends RelayOptions {
  readonly route?: string;
  readonly state?: string;
  readonly limit: number;
  readonly before?: string;
  readonly json?: boolean;
}

/** Adds `deliveries list`. */
export function addDeliveriesCommand(program: Command, io: Io): void {
  const deliveries = program.command("deliveries").description("look at what is owed to the routes and what became of it");
  const list = withRelayOptions(deliveries.command("list")).description("list deliveries, those of the newest events first");
  list
    .option("--route <name>", "of this route")
    .addOption(new Option("--state <word>", "in this state; dead ones are the dead letters").choices(deliveryStates))
    .option("--limit <count>", "at most so many", count, 50)
    .option("--before <place>", "go on after a page: the next that it gave")
    .option("--json", "print {data, next} as JSON; next is for --before, null at the end")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay deliveries list --state dead
  wamid-relay deliveries list --route failures-to-crm --state waiting --limit 200
  wamid-relay deliveries list --state dead --json | jq -r '.data[].id' | xargs wamid-relay retry`,
    )
    .action((options: Options) => listDeliveries(list, options, io));
}

async function listDeliveries(command: Command, options: Options, io: Io): Promise<void> {
  const { route, state, before, limit } = options;
  const found = await withReading(command, options, io, (client) =>
    readPages(client, "/v1/deliveries", { route, state, before }, limit, { item: deliverySchema, next: z.string() }),
  );
  if (options.json === true) {
    io.out(printableJson(found));
    return;
  }
  const rows = found.data.map((each) => [
    String(each.event),
    each.route,
    each.state,
    String(each.attempts),
    timeText(each.nextAt ?? each.settledAt),
    each.id,
    each.reason ?? "",
  ]);
  for (const line of tableLines(["EVENT", "ROUTE", "STATE", "ATTEMPTS", "NEXT OR SETTLED (UTC)", "ID", "REASON"], rows)) io.out(line);
  if (found.next !== null) io.err(`there are more: --before ${found.next}, or a greater --limit`);
}
