import { type Command, Option } from "commander";
import { readAnswer } from "./control-views.ts";
import { explainedSchema } from "./explain/views.ts";
import type { Io } from "./io.ts";
import { printableJson } from "./printable.ts";
import { privateView } from "./private-view.ts";
import { expectDone, type RelayOptions, withReading, withRelayOptions } from "./reach-relay.ts";
import { count } from "./time-options.ts";

interface Options extends RelayOptions {
  readonly as?: string;
  readonly account?: string;
  readonly after?: number;
  readonly limit: number;
  readonly showPii?: boolean;
  readonly json?: boolean;
}

/** Adds `explain`: the whole story of a message, run or event. */
export function addExplainCommand(program: Command, io: Io): void {
  const explain = withRelayOptions(
    program.command("explain").argument("<name>", "wamid, event id or seq, reference, run id, or the service's id"),
  );
  explain
    .description("tell the whole story of a message, run or event: what came, what each route made of it, each attempt, what is next")
    .addOption(new Option("--as <what>", "what the name is, where it could be several things").choices(["event", "message", "run"]))
    .option("--account <name>", "the account, where several have something of this name")
    .option("--limit <count>", "at most so many events of each message", count, 50)
    .option("--after <seq>", "only events after this one: the last of the page before", count)
    .option("--show-pii", "show wamids, phone numbers and what was registered in clear")
    .option("--json", "print {data} as JSON, a story for each message, run or event of the name")
    .addHelpText(
      "after",
      `
Times are UTC. Read from the store of the settings: a file, or Redis. Which destinations pause (breaker) stands in Redis,
but in no file: there it is told with --relay only.

Examples:
  wamid-relay explain wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEjNFQjBD
  wamid-relay explain 01998d3e-7c1a-7000-8000-00000000002a
  wamid-relay explain order-1234 --show-pii
  wamid-relay explain 4711 --as event --json`,
    )
    .action((name: string, options: Options) => explainName(explain, name, options, io));
}

async function explainName(command: Command, name: string, options: Options, io: Io): Promise<void> {
  const { as, account, after, limit } = options;
  const query = new URLSearchParams({
    limit: String(limit),
    ...(as === undefined ? {} : { as }),
    ...(account === undefined ? {} : { account }),
    ...(after === undefined ? {} : { after: String(after) }),
  });
  const { data } = await withReading(command, options, io, async (client) =>
    readAnswer(explainedSchema, expectDone(await client.request("GET", `/v1/explain/${encodeURIComponent(name)}?${query}`))),
  );
  const view = privateView(options.showPii);
  if (options.json === true) {
    const { maskedStory } = await import("./explain/masked.ts");
    io.out(printableJson({ data: data.map((story) => maskedStory(story, view)) }));
    return;
  }
  const { storyLines } = await import("./explain/report.ts");
  for (const [index, story] of data.entries()) {
    if (index > 0) io.out("");
    for (const line of storyLines(story, view)) io.out(line);
    if (story.next !== null) io.err(`there are later events: --after ${story.next}, or a greater --limit`);
  }
}
