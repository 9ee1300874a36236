import type { Command } from "commander";

/** Where the settings are when `--config` does not say, from the working directory. */
export const defaultSettingsPath = "config/relay.yaml";

/** Adds `--config <path>`; its value is `options.config`. Returns the command. */
export function withConfigOption(command: Command): Command {
  return command.option("-c, --config <path>", "settings file", defaultSettingsPath);
}
