import { existsSync, realpathSync } from "node:fs";
import { resolve } from "node:path";
import type { Command } from "commander";
import type { RelayClientError, Reload } from "../client/relay-client.ts";
import { CommandFailed, type Io } from "./io.ts";
import { withRelayOptions } from "./options.ts";
import { print } from "./output.ts";
import { withRelay } from "./relay.ts";

export function build(command: Command, io: Io): void {
  withRelayOptions(command)
    .option("--status", "show the last reload; change nothing")
    .option("--json", "print the relay's report as JSON")
    .addHelpText(
      "after",
      `
If anything is faulty, the relay keeps the settings that it has, and the exit code is 1. With several processes, reload
each one: by its address with --relay, or by SIGHUP. The token needs the scope replay, or read with --status.

Examples:
  wamid-relay config check && wamid-relay reload
  wamid-relay reload --status
  wamid-relay reload --relay http://10.0.0.7:8080`,
    )
    .action(async (options) => {
      const isStatus = options.status === true;
      const report = await withRelay(
        command,
        options,
        io,
        isStatus ? "read" : "replay",
        (client) => (isStatus ? client.getReload() : client.reloadSettings().catch(refusedReport)),
        "process",
      );
      print(io, options, report, () => linesOf(report, isStatus));
      // The relay on another host or in a container may have it elsewhere.
      if (
        options.relay === undefined &&
        report.file != null &&
        placeOf(report.file) !== placeOf(options.config)
      ) {
        io.err(`note: the relay reads ${report.file}, not ${options.config}`);
      }
      for (const name of report.overridden) {
        io.err(
          `warning: ${name} of the env file has no effect: the process environment has another value, which wins`,
        );
      }
      for (const { source, secret, lastAt } of report.dropped) {
        const what = `sources.${source} no longer has the secret ${secret}, which verified an event at ${lastAt}`;
        io.err(`warning: ${what}: webhooks signed with it now get 401`);
      }
      if (report.result === "applied") return;
      const faults = report.faults.map(
        ({ path, message, source }) => `${source}${path === "" ? "" : ` ${path}`}: ${message}`,
      );
      const heading = `the settings were not reloaded${isStatus ? ` at ${report.at}` : ""}; those of ${report.loadedAt} stay in effect:`;
      throw new CommandFailed([heading, ...faults].join("\n"));
    });
}

const placeOf = (path: string): string => (existsSync(path) ? realpathSync(path) : resolve(path));

function refusedReport(error: unknown): Reload {
  const { code, details } = error as Partial<RelayClientError>;
  if (code === "settings_refused") return details as Reload;
  throw error;
}

const triggers: Readonly<Record<Reload["trigger"], string>> = {
  start: "the start",
  signal: "SIGHUP",
  api: "POST /v1/reload",
};

function linesOf(
  { result, trigger, at, changed, needRestart }: Reload,
  isStatus: boolean,
): string[] {
  if (result === "refused") return [];
  const first = isStatus
    ? `settings in effect since ${at}, by ${triggers[trigger]}`
    : "settings reloaded";
  const heading =
    isStatus && trigger === "start"
      ? first
      : `${first}; ${changed.length === 0 ? "nothing changed" : "changed:"}`;
  const restart =
    needRestart.length === 0
      ? []
      : ["these take effect after a restart:", ...needRestart.map((path) => `  ${path}`)];
  return [heading, ...changed.map((path) => `  ${path}`), ...restart];
}
