import type { Command } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import { withConfigOption } from "./options.ts";

/** Shorter than the timeouts of the image's and Kubernetes' checks. */
const answerWithinMs = 4_000;

export function build(command: Command, io: Io): void {
  withConfigOption(command)
    .addHelpText(
      "after",
      `
Calls GET /healthz at server.control of the settings, else at server, for at most 4 s. It needs no secret except the key
of tls there. A relay that cannot store is alive, because a restart would not help.

Exit codes:
  0  the relay answers
  1  it does not

Examples:
  wamid-relay healthcheck --config /etc/wamid-relay/relay.yaml`,
    )
    .action(async (options) => {
      const [{ readPart }, { findRelay }] = await Promise.all([
        import("./settings-option.ts"),
        import("./reach-relay.ts"),
      ]);
      const found = await findRelay(readPart("server", options, io), null, answerWithinMs);
      if (typeof found === "string") throw new CommandFailed(found);
      io.out(`alive at ${found.url}`);
    });
}
