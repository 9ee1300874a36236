import type { Command } from "commander";
import { z } from "zod";
import { deliverySchema, maskedDelivery } from "../control-views.ts";
import type { DeliveriesListOptions } from "../deliveries-command.ts";
import type { Io } from "../io.ts";
import { printableJson, privateView, tableLines, timeText } from "../output.ts";
import { readPages, withReading } from "../reach-relay.ts";

/** Prints the deliveries that match, those of the newest events first. */
export async function listDeliveries(command: Command, options: DeliveriesListOptions, io: Io): Promise<void> {
  const { route, state, before, limit } = options;
  const found = await withReading(command, options, io, (client) =>
    readPages(client, "/v1/deliveries", { route, state, before }, limit, { item: deliverySchema, next: z.string() }),
  );
  const view = privateView(options.showPii);
  const shown = found.data.map((each) => maskedDelivery(each, view));
  if (options.json === true) {
    io.out(printableJson({ ...found, data: shown }));
    return;
  }
  const rows = shown.map((each) => [
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
