import { faultLine, SettingsError } from "../config/fault.ts";
import { loadForReading, loadSettings, type ReadableSettings } from "../config/load.ts";
import type { Settings } from "../config/schema.ts";
import { CommandFailed, type Io } from "./io.ts";
import type { SettingsOptions } from "./options.ts";

/** The settings of `--config`, with `${…}` from `io.env` and `--env-file`. Throws {@link CommandFailed} that lists all faults, one a line. */
export function readSettings({ config: path, envFile }: SettingsOptions, io: Io): Settings {
  return orFailed(path, () => loadSettings(path, io.env, envFile));
}

/** Like {@link readSettings}, for commands that only look ({@link loadForReading}). */
export function readForLooking({ config: path, envFile }: SettingsOptions, io: Io): ReadableSettings {
  return orFailed(path, () => loadForReading(path, io.env, envFile));
}

function orFailed<T>(path: string, load: () => T): T {
  try {
    return load();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    throw new CommandFailed(settingsFailureText(path, error));
  }
}

/** The message for invalid settings: a heading, then one line per fault. */
export function settingsFailureText(path: string, error: SettingsError): string {
  const count = error.faults.length === 1 ? "a fault" : `${error.faults.length} faults`;
  return [`the settings in ${path} have ${count}:`, ...error.faults.map(faultLine)].join("\n");
}
