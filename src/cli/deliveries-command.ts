import { type Command, Option } from "commander";
import { deliveryStates } from "../event/delivery.ts";
import type { Io } from "./io.ts";
import { count, type RelayOptions, withRelayOptions } from "./options.ts";

export interface DeliveriesListOptions extends RelayOptions {
  readonly route?: string;
  readonly state?: string;
  readonly limit: number;
  readonly before?: string;
  readonly showPii?: boolean;
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
    .option("--show-pii", "show ids in clear that hold a wamid or a phone number")
    .option("--json", "print {data, next} as JSON; next is for --before, null at the end")
    .addHelpText(
      "after",
      `
Examples:
  wamid-relay deliveries list --state dead
  wamid-relay deliveries list --route failures-to-crm --state waiting --limit 200
  wamid-relay deliveries list --state dead --json | jq -r '.data[].id' | xargs wamid-relay retry`,
    )
    .action(async (options: DeliveriesListOptions) => {
      const { listDeliveries } = await import("./deliveries/list-deliveries.ts");
      await listDeliveries(list, options, io);
    });
}
