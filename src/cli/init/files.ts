import { closeSync, existsSync, mkdirSync, openSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, isAbsolute, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { CommandFailed, type Io } from "../io.ts";

export function refuseExisting(paths: readonly string[]): void {
  const existing = paths.filter((path) => existsSync(path));
  if (existing.length > 0) throw alreadyThere(existing);
}

function alreadyThere(paths: readonly string[]): CommandFailed {
  const [verb, them] = paths.length === 1 ? ["exists", "it"] : ["exist", "them"];
  return new CommandFailed(`${paths.map(fromHere).join(" and ")} already ${verb}; move ${them} away, or give --dir another folder`);
}

/** Root of this package: `src/cli/init` in a checkout and `dist/cli/init` in a package are both three levels below it. */
const packageRoot = fileURLToPath(new URL("../../..", import.meta.url)).replace(/[/\\]$/, "");

/** The project into whose `node_modules` this package is installed; null for a checkout and a global installation. */
export function projectOf(folder: string, root = packageRoot): string | null {
  const modules = dirname(root);
  if (basename(modules) !== "node_modules") return null;
  const project = dirname(modules);
  return folder === project || folder.startsWith(`${project}${sep}`) ? project : null;
}

/**
 * The editor schema: that of the package in the project's `node_modules`, which stays in step with it. Elsewhere a copy is
 * written beside the settings, because a path into a global installation holds on one machine only.
 */
export async function schemaOf(folder: string, root = packageRoot): Promise<{ readonly reference: string; readonly text: string | null }> {
  const installed = join(root, "config", "relay.schema.json");
  if (projectOf(folder, root) !== null && existsSync(installed)) {
    const path = relative(folder, installed).split(sep).join("/");
    return { reference: path.startsWith(".") ? path : `./${path}`, text: null };
  }
  const { editorSchema } = await import("../../config/json-schema.ts");
  return { reference: "./relay.schema.json", text: `${JSON.stringify(editorSchema(), null, 2)}\n` };
}

export interface NewFile {
  readonly path: string;
  readonly text: string;
  readonly mode: number;
  /** True for a file that may be replaced without asking. */
  readonly isOurs?: boolean;
}

/** Writes all files, or none when the settings would not load. */
export async function writeFiles(
  folder: string,
  files: readonly NewFile[],
  { settings, envFile, io }: { settings: string; envFile: string; io: Io },
): Promise<void> {
  const begun: string[] = [];
  try {
    mkdirSync(folder, { recursive: true });
    for (const { path, text, mode, isOurs = false } of files) {
      // Fails where the name is taken, also by what came during the questions.
      if (!isOurs) closeSync(openSync(path, "wx", mode));
      begun.push(path);
      writeFileSync(path, text, { mode });
    }
    const { readSettings } = await import("../settings-option.ts");
    readSettings({ config: settings, envFile }, io);
  } catch (error) {
    for (const path of begun) rmSync(path, { force: true });
    if (error instanceof CommandFailed) throw error;
    const { code, path } = error as NodeJS.ErrnoException;
    if (code === "EEXIST" && path !== undefined) throw alreadyThere([path]);
    throw new CommandFailed(`cannot write to ${fromHere(folder)}: ${(error as Error).message}`);
  }
}

/** Name, value and comment. */
export type Variable = readonly [string, string, string];

export function envText(variables: readonly Variable[]): string {
  const head = '# Secrets of relay.yaml, written by "wamid-relay init". Keep this file private and out of version control.\n';
  return head + variables.map(([name, value, comment]) => `\n# ${comment}\n${name}=${quoted(value)}\n`).join("");
}

/** Plain where possible: systemd and docker read quotes in their own ways. */
function quoted(value: string): string {
  if (/^[\w+/=.:@%?&~,-]+$/.test(value)) return value;
  const quote = ["'", '"', "`"].find((each) => !value.includes(each)) ?? "'";
  return `${quote}${value}${quote}`;
}

/** Relative to the working directory where it is below it. */
export function fromHere(path: string): string {
  const way = relative(process.cwd(), path);
  return way === "" || way.startsWith("..") || isAbsolute(way) ? path : way;
}
