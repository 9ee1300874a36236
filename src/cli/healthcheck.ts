import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { type Command, Option } from "commander";
import { CommandFailed, type Io } from "./io.ts";
import { count, type SettingsOptions, withConfigOption } from "./options.ts";

interface Options extends SettingsOptions {
  readonly pid?: number;
}

/** Shorter than the timeouts of the image's and Kubernetes' checks. */
const answerWithinMs = 4_000;

/** Adds `healthcheck`. Exit code 1 when the relay of the settings does not answer. */
export function build(command: Command, io: Io): void {
  withConfigOption(command)
    .addOption(new Option("--pid <pid>", "use the --config and --env-file of this running relay (Linux)").argParser(count))
    .addHelpText(
      "after",
      `
Calls GET /healthz at the host and port of the settings, for at most 4 s. It needs no secret. A relay that cannot store is
alive, because a restart would not help.

Exit codes:
  0  the relay answers
  1  it does not

Examples:
  wamid-relay healthcheck
  wamid-relay healthcheck --pid 1`,
    )
    .action(async ({ pid, ...options }: Options) => {
      const [{ readForLooking }, { ownAddress, probeListener }] = await Promise.all([
        import("./settings-option.ts"),
        import("./reach-relay.ts"),
      ]);
      const { settings } = readForLooking(pid === undefined ? options : { ...options, ...optionsOf(pid) }, io);
      const url = ownAddress(settings.server);
      if (url === null) throw new CommandFailed("server.port is 0, so the relay's address is not known");
      const found = await probeListener(url, answerWithinMs);
      if (found.kind !== "relay")
        throw new CommandFailed(found.kind === "nobody" ? `nothing listens at ${url}` : `no wamid-relay at ${url}`);
      io.out(`alive at ${url}`);
    });
}

/** What `serve` of this process was given. */
function optionsOf(pid: number): Partial<SettingsOptions> {
  let words: string[];
  try {
    words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
  } catch (error) {
    throw new CommandFailed(`process ${pid} cannot be read: ${(error as Error).message}`);
  }
  const serve = words.indexOf("serve");
  if (serve === -1) throw new CommandFailed(`process ${pid} is not a wamid-relay serve`);
  const { values } = parseArgs({
    args: words.slice(serve + 1, -1),
    strict: false,
    options: { config: { type: "string", short: "c" }, "env-file": { type: "string" }, role: { type: "string" } },
  });
  const { config, "env-file": envFile } = values;
  return { ...(typeof config === "string" ? { config } : {}), ...(typeof envFile === "string" ? { envFile } : {}) };
}
