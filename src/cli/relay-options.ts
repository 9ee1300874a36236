import type { Command } from "commander";
import { withConfigOption } from "./settings-flag.ts";

export interface RelayOptions {
  readonly config: string;
  readonly relay?: string;
  readonly tokenEnv: string;
}

/** Adds `--config`, `--relay` and `--token-env`. Returns the command. */
export function withRelayOptions(command: Command): Command {
  return withConfigOption(command)
    .option("--relay <url>", "ask the relay at this URL instead of the one of the settings file")
    .option("--token-env <name>", "with --relay: the environment variable that holds the token", "RELAY_TOKEN");
}
