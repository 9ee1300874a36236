import { faultLine, SettingsError } from "../config/fault.ts";
import { loadForReading, loadParts, loadSettings, type ReadableSettings } from "../config/load.ts";
import type { Settings } from "../config/schema.ts";
import type { Warning } from "../config/warnings.ts";
import { MissingSecret, type Secret } from "../model/secret.ts";
import { CommandFailed, type Io } from "./io.ts";
import type { SettingsOptions } from "./options.ts";

/**
 * The settings of `--config`, with `${…}` from `io.env` and `--env-file`. Throws {@link
 * CommandFailed} that lists all faults, one a line.
 */
export function readSettings({ config: path, envFile }: SettingsOptions, io: Io): Settings {
  return orFailed(path, () => loadSettings(path, io.env, envFile));
}

export function readForLooking(
  { config: path, envFile }: SettingsOptions,
  io: Io,
): ReadableSettings {
  return orFailed(path, () => loadForReading(path, io.env, envFile));
}

/**
 * `server` or `storage`, whatever is faulty elsewhere. Throws {@link CommandFailed} that lists its
 * faults when it is faulty itself.
 */
export function readPart<Name extends "server" | "storage">(
  name: Name,
  options: SettingsOptions,
  io: Io,
): Settings[Name] {
  const { config, envFile } = options;
  // The conditional type of an indexed access does not narrow by itself.
  const part = loadParts(config, io.env, envFile)?.[name] as Settings[Name] | null | undefined;
  return part ?? orFailed(config, () => loadSettings(config, io.env, envFile)[name], name);
}

export const isReadable = (secret: Secret): boolean => !(secret instanceof MissingSecret);

/**
 * Those of a source's secrets that this command can read. Throws {@link CommandFailed} when there
 * are none.
 */
export function readableSecrets(secrets: readonly Secret[]): readonly [Secret, ...Secret[]] {
  const [first, ...others] = secrets.filter(isReadable);
  if (first !== undefined) return [first, ...others];
  const why = secrets
    .flatMap((secret) => (secret instanceof MissingSecret ? [secret.why] : []))
    .join("; ");
  throw new CommandFailed(
    `this command cannot read the source's secret: ${why}. Run it with the relay's user and variables`,
  );
}

function orFailed<T>(path: string, load: () => T, part?: string): T {
  try {
    return load();
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    const own = error.faults.filter(
      (fault) => part !== undefined && fault.path.split(/[.[]/)[0] === part,
    );
    throw new CommandFailed(
      settingsFailureText(path, own.length === 0 ? error : new SettingsError(own)),
    );
  }
}

export function settingsFailureText(path: string, error: SettingsError): string {
  const count = error.faults.length === 1 ? "a fault" : `${error.faults.length} faults`;
  return [`the settings in ${path} have ${count}:`, ...error.faults.map(faultLine)].join("\n");
}

export async function warnOf(settings: Settings, io: Pick<Io, "err">): Promise<readonly Warning[]> {
  const { warnings } = await import("../config/warnings.ts");
  const found = warnings(settings);
  for (const { path, message } of found) io.err(`warning: ${path}: ${message}`);
  return found;
}
