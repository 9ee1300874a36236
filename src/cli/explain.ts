import type { Command } from "commander";
import type { Io } from "./io.ts";
import { choice, count, givenArgument, withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import { withRelay } from "./relay.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .argument(
      "<name>",
      "wamid, event id or seq, delivery id, reference, run id, or the service's id; masked or not",
      givenArgument,
    )
    .addOption(
      choice("--as <what>", "what the name is, if several things have it", [
        "event",
        "message",
        "run",
      ]),
    )
    .option("--account <name>", "the account, if several have something of this name")
    .option("--limit <count>", "most events of each message", count, 50)
    .option("--after <seq>", "only events after this one: the last of the previous page", count)
    .option("--show-pii", "show wamids, phone numbers and what was registered in clear")
    .option("--json", "print {data} as JSON, one entry for each message, run or event of the name")
    .addHelpText(
      "after",
      `
Times are UTC.

Examples:
  wamid-relay explain wamid.HBgNNTQ5MTE1NTU1MDEwMBUCABEYEjNFQjBD
  wamid-relay explain wamid:caa16f1062d2
  wamid-relay explain 01998d3e-7c1a-7000-8000-00000000002a
  wamid-relay explain dlv_01998d3e7c1a7000800000000000002a_3c7a1014837c
  wamid-relay explain order-1234 --show-pii
  wamid-relay explain 4711 --as event --json`,
    )
    .action(async (name, options) => {
      const { as, account, after, limit } = options;
      const [{ storyLines }, { orLookUp }] = await Promise.all([
        import("./story-lines.ts"),
        import("./control-client.ts"),
      ]);
      const unknown = orLookUp(
        '"wamid-relay events list" lists the events, and its --query finds a user id, or the last digits of a phone',
      );
      // Only the running relay knows whether a circuit breaker is open.
      const found = await withRelay(command, options, io, "read", (client) =>
        client.explain({ name, as, account, after, limit }).catch(unknown),
      );
      print(io, options, found, ({ data }) =>
        data.flatMap((story, index) => [...(index > 0 ? [""] : []), ...storyLines(story)]),
      );
      if (options.json === true) return;
      for (const { next } of found.data)
        if (next !== null) io.err(`there are later events: --after ${next}, or a greater --limit`);
    });
}
