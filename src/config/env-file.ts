import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { SettingsError } from "./fault.ts";
import type { Environment } from "./tree.ts";

/** Where the variables of `${…}` come from. The process environment wins over the file, as in dotenv. */
export interface VariableSources {
  readonly env: Environment;
  /** `--env-file`. Default: `.env` beside the settings file, where there is one. */
  readonly envFile?: string | undefined;
}

/** The variables for the settings file at `settingsPath`. Reads the env file again on each call. Throws {@link SettingsError}. */
export function readVariables(settingsPath: string, { env, envFile }: VariableSources): Environment {
  return { ...variablesInFile(settingsPath, envFile), ...env };
}

/**
 * Variables of the env file that have another value in the process environment, which wins. A rotation in the file has no
 * effect on them. Throws {@link SettingsError}.
 */
export function overriddenVariables(settingsPath: string, { env, envFile }: VariableSources): string[] {
  const inFile = Object.entries(variablesInFile(settingsPath, envFile));
  return inFile.filter(([name, value]) => env[name] !== undefined && env[name] !== value).map(([name]) => name);
}

/** The env file of the settings file at `settingsPath`, which may not exist. */
export function envFilePath(settingsPath: string, envFile: string | undefined): string {
  return envFile ?? join(dirname(settingsPath), ".env");
}

function variablesInFile(settingsPath: string, envFile: string | undefined): Environment {
  const path = envFilePath(settingsPath, envFile);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ENOENT" && envFile === undefined) return {};
    const message = code === "ENOENT" ? "file not found (--env-file sets its path)" : `cannot be read (${code ?? "unknown error"})`;
    throw new SettingsError([{ path: "", message, source: path }]);
  }
  return parseEnv(text);
}
