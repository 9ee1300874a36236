import type { Command } from "commander";
import { eventDetailSchema, maskedDetail, readAnswer } from "../control-views.ts";
import type { EventsShowOptions } from "../events-command.ts";
import type { Io } from "../io.ts";
import { printableJson, privateView } from "../output.ts";
import { expectDone, withReading } from "../reach-relay.ts";

/** Prints all about one event, or its body as it was received. */
export async function showEvent(command: Command, id: string, options: EventsShowOptions, io: Io): Promise<void> {
  const query = options.account === undefined ? "" : `?${new URLSearchParams({ account: options.account })}`;
  const event = await withReading(command, options, io, async (client) =>
    readAnswer(eventDetailSchema, expectDone(await client.request("GET", `/v1/events/${encodeURIComponent(id)}${query}`))),
  );
  if (options.body === true) {
    process.stdout.write(Buffer.from(event.body, "base64"));
    return;
  }
  const view = privateView(options.showPii);
  if (options.json === true) {
    io.out(printableJson(maskedDetail(event, view)));
    return;
  }
  const { eventLines } = await import("../event-report.ts");
  for (const line of eventLines(event, view)) io.out(line);
}
