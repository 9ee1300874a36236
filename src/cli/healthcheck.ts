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
      const [{ readPart }, { controlAddress }, { probeListener }] = await Promise.all([
        import("./settings-option.ts"),
        import("./reach-relay.ts"),
        import("./control-client.ts"),
      ]);
      const at = controlAddress(readPart("server", options, io));
      if (at === null)
        throw new CommandFailed("server.port is 0, so the relay's address is not known");
      const found = await probeListener(at, answerWithinMs);
      if (found.kind !== "relay")
        throw new CommandFailed(
          found.kind === "nobody" ? `nothing listens at ${at.url}` : `no wamid-relay at ${at.url}`,
        );
      io.out(`alive at ${at.url}`);
    });
}
