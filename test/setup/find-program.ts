import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/**
 * Path of a program of a Debian package, by default of its own name. test/setup/programs.ts has
 * installed it where it can. Throws an error of one line that says what to install.
 */
export function findProgram(
  command: string,
  { package: name = command }: { readonly package?: string } = {},
): string {
  const found = findOnPath(command);
  if (found === null)
    throw new Error(
      `${command} was not found: install it so that it is on the PATH (Debian: apt-get install ${name})`,
    );
  return found;
}

/** The build without windows needs a third less of the processor. */
export const findChromium = (): string =>
  findOnPath("chromium-headless-shell") ?? findProgram("chromium");

export function findOnPath(name: string): string | null {
  for (const folder of (process.env["PATH"] ?? "").split(delimiter)) {
    if (folder === "") continue;
    const path = join(folder, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // Not here; the next folder.
    }
  }
  return null;
}
