import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { SettingsError } from "./fault.ts";

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Where the variables of `${…}` come from. The process environment wins over the file, as in
 * dotenv.
 */
export interface VariableSources {
  readonly env: Environment;
  /** `--env-file`. Default: `.env` beside the settings file, where there is one. */
  readonly envFile?: string | undefined;
}

/**
 * The variables for the settings file at `settingsPath`. Reads the env file again on each call.
 * Throws {@link SettingsError}.
 */
export function readVariables(
  settingsPath: string,
  { env, envFile }: VariableSources,
): Environment {
  return { ...variablesInFile(settingsPath, envFile), ...env };
}

/**
 * Variables of the env file that have another value in the process environment, which wins. Throws
 * {@link SettingsError}.
 */
export function overriddenVariables(
  settingsPath: string,
  { env, envFile }: VariableSources,
): string[] {
  const inFile = Object.entries(variablesInFile(settingsPath, envFile));
  return inFile
    .filter(([name, value]) => env[name] !== undefined && env[name] !== value)
    .map(([name]) => name);
}

export function envFilePath(settingsPath: string, envFile: string | undefined): string {
  return envFile ?? join(dirname(settingsPath), ".env");
}

function variablesInFile(settingsPath: string, envFile: string | undefined): Environment {
  const path = envFilePath(settingsPath, envFile);
  let text: string;
  try {
    text = readTextFile(path, largestFile);
  } catch (error) {
    const fault = error as NodeJS.ErrnoException;
    if (fault.code === "ENOENT" && envFile === undefined) return {};
    const message = readErrorText(fault, "the env file", "--env-file");
    throw new SettingsError([{ path: "", message, source: path }]);
  }
  const variables = parseEnv(text);
  const faults = faultsIn(text, variables);
  if (faults.length > 0)
    throw new SettingsError(
      faults.map(({ message, line }) => ({ path: "", message, source: `${path}:${line}:1` })),
    );
  return variables;
}

/**
 * The name of each assignment, and a quote that nothing closes, or the colon of `NAME: value`. A
 * quoted value may have several lines, which are none.
 */
const assignment =
  /^[ \t]*(?:export[ \t]+)?([\w.-]+)[ \t]*(?:=[ \t]*(?:"[^"]*"|'[^']*'|`[^`]*`|(["'`]))?|(:)(?=\s|[^=\n]*$))/gm;

/**
 * `parseEnv` keeps the last value of a name, so a secret added twice would silently replace one in
 * use. It keeps a quote that is not closed as a part of the value, and passes over `NAME: value`.
 */
function faultsIn(
  text: string,
  variables: Environment,
): { readonly message: string; readonly line: number }[] {
  const first = new Map<string, number>();
  let line = 1;
  let end = 0;
  return [...text.matchAll(assignment)].flatMap(({ 1: name = "", 2: quote, 3: colon, index }) => {
    line += text.slice(end, index).split("\n").length - 1;
    end = index;
    if (colon !== undefined)
      return [{ message: `${name} stands before ":"; write ${name}=, then the value`, line }];
    const before = first.get(name);
    if (before === undefined) first.set(name, line);
    if (quote !== undefined)
      return [{ message: `the value of ${name} begins with ${quote}, which nothing closes`, line }];
    const isRepeated = before !== undefined && Object.hasOwn(variables, name);
    return isRepeated
      ? [
          {
            message: `sets ${name} a second time; it is already set on line ${before}. Keep one of the two`,
            line,
          },
        ]
      : [];
  });
}

/**
 * The text of a regular file in UTF-8, without the byte order mark that editors of Windows write.
 * Throws an error of the file system, or one with the code `ENOTFILE`, `EFBIG` or that of the
 * decoder. Opening a pipe that has no writer would block the relay.
 */
export function readTextFile(path: string, largestBytes: number): string {
  const status = statSync(path);
  if (status.isDirectory()) throw fault("EISDIR");
  if (!status.isFile()) throw fault("ENOTFILE");
  if (status.size > largestBytes) throw fault("EFBIG");
  return new TextDecoder("utf-8", { fatal: true }).decode(readFileSync(path));
}

function fault(code: string): NodeJS.ErrnoException {
  return Object.assign(new Error(code), { code });
}

/** Far larger than any settings; a data file passed by mistake must not be parsed for minutes. */
export const largestFile = 1024 * 1024;

/**
 * For settings and env files: `which` is "the settings file" or "the env file", `option` sets its
 * path.
 */
export function readErrorText(
  { code }: NodeJS.ErrnoException,
  which: string,
  option: string,
): string {
  if (code === "ENOENT")
    return `file not found (${option} sets its path${option === "--config" ? '; "wamid-relay init" writes a new one' : ""})`;
  if (code === "EISDIR") return `is a directory, not ${which}`;
  if (code === "ENOTFILE")
    return "is not a regular file. A reload reads it again, so it cannot be a pipe or a device: write a file";
  if (code === "EFBIG") return `is larger than 1 MiB: is this ${which}?`;
  if (code === "ERR_ENCODING_INVALID_ENCODED_DATA") return "is not UTF-8 text";
  if (code === "EACCES" || code === "EPERM") return "may not be read by this user";
  return `cannot be read (${code ?? "unknown error"})`;
}
