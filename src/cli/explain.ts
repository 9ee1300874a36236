import { type Command, Option } from "commander";
import type { Io } from "./io.ts";
import { count, givenArgument, type RelayOptions, withRelayOptions } from "./options.ts";

export interface ExplainOptions extends RelayOptions {
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
    program.command("explain").argument("<name>", "wamid, event id or seq, reference, run id, or the service's id", givenArgument),
  );
  explain
    .description("tell the whole story of a message, run or event: what came, what each route made of it, each attempt, what is next")
    .addOption(new Option("--as <what>", "what the name is, where it could be several things").choices(["event", "message", "run"]))
    .option("--account <name>", "the account, where several have something of this name")
    .option("--limit <count>", "at most so many events of each message", count, 50)
    .option("--after <seq>", "only events after this one: the last of the page before", count)
    .option("--show-pii", "show wamids, phone numbers and what was registered in clear")
    .option("--json", "print {data, unseen} as JSON, a story for each message, run or event of the name")
    .addHelpText(
      "after",
      `
Times are UTC. Read from the store of the settings: a file, or Redis. A file does not hold open circuit breakers: there they
are shown with --relay only.

Examples:
  wamid-relay explain wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEjNFQjBD
  wamid-relay explain 01998d3e-7c1a-7000-8000-00000000002a
  wamid-relay explain order-1234 --show-pii
  wamid-relay explain 4711 --as event --json`,
    )
    .action(async (name: string, options: ExplainOptions) => {
      const { explainName } = await import("./explain-run.ts");
      await explainName(explain, name, options, io);
    });
}
