import type { Command } from "commander";
import { z } from "zod";
import { eventSchema, maskedEvent } from "../control-views.ts";
import { unseenLine } from "../event-report.ts";
import type { EventsListOptions } from "../events-command.ts";
import type { Io } from "../io.ts";
import { printableJson, privateView, tableLines, timeText } from "../output.ts";
import { readPages, timeFilter, withReading } from "../reach-relay.ts";

/** Prints the events that match, newest first. */
export async function listEvents(command: Command, options: EventsListOptions, io: Io): Promise<void> {
  const { event, source, account, status, disposition, wamid, before, limit } = options;
  const query = {
    event,
    source,
    account,
    status,
    disposition,
    wamid,
    before: before?.toString(),
    ...timeFilter(command, options, Date.now()),
  };
  const found = await withReading(command, options, io, (client) =>
    readPages(client, "/v1/events", query, limit, { item: eventSchema, next: z.number() }),
  );
  const view = privateView(options.showPii);
  const shown = found.data.map((each) => maskedEvent(each, view));
  if (options.json === true) {
    io.out(printableJson({ data: shown, next: found.next, unseen: found.unseen }));
    return;
  }
  const rows = shown.map((each) => [
    timeText(each.receivedAt),
    String(each.seq),
    each.event ?? "",
    each.status ?? "",
    each.disposition,
    each.subject?.key ?? "",
    each.id ?? "",
  ]);
  for (const line of tableLines(["RECEIVED (UTC)", "SEQ", "EVENT", "STATUS", "DISPOSITION", "ABOUT", "ID"], rows)) io.out(line);
  if (found.next !== null) io.err(`there are older ones: --before ${found.next}, or a greater --limit`);
  if (found.unseen > 0) io.err(unseenLine(found.unseen));
}
