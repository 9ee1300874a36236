import type { Command } from "commander";
import { readAnswer } from "../control-views.ts";
import { unseenLine } from "../event-report.ts";
import type { ExplainOptions } from "../explain-command.ts";
import type { Io } from "../io.ts";
import { printableJson, privateView } from "../output.ts";
import { expectDone, withReading } from "../reach-relay.ts";
import { explainedSchema } from "./views.ts";

/** Prints the whole story of each message, run or event of this name. */
export async function explainName(command: Command, name: string, options: ExplainOptions, io: Io): Promise<void> {
  const { as, account, after, limit } = options;
  const query = new URLSearchParams({
    limit: String(limit),
    ...(as === undefined ? {} : { as }),
    ...(account === undefined ? {} : { account }),
    ...(after === undefined ? {} : { after: String(after) }),
  });
  const { data, unseen } = await withReading(command, options, io, async (client) =>
    readAnswer(explainedSchema, expectDone(await client.request("GET", `/v1/explain/${encodeURIComponent(name)}?${query}`))),
  );
  const view = privateView(options.showPii);
  if (options.json === true) {
    const { maskedStory } = await import("./masked.ts");
    io.out(printableJson({ data: data.map((story) => maskedStory(story, view)), unseen }));
    return;
  }
  const { storyLines } = await import("./report.ts");
  for (const [index, story] of data.entries()) {
    if (index > 0) io.out("");
    for (const line of storyLines(story, view)) io.out(line);
    if (story.next !== null) io.err(`there are later events: --after ${story.next}, or a greater --limit`);
  }
  if (unseen > 0) io.err(unseenLine(unseen));
}
