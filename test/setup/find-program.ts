import { accessSync, constants } from "node:fs";
import { delimiter, join } from "node:path";

/** Path of a `redis-server` that can be run. No npm package ships one. */
export function findRedisServer(env: NodeJS.ProcessEnv = process.env): string {
  return findProgram("redis-server", {
    env,
    advice: 'install Redis 7 so that "redis-server" is on the PATH (Debian: apt-get install redis-server; macOS: brew install redis)',
  });
}

/**
 * Path of a program of a Debian package, by default of its own name. test/setup/programs.ts has installed it where it can.
 * Throws an error of one line that says what to install.
 */
export function findProgram(
  command: string,
  {
    package: name = command,
    env = process.env,
    advice = `install it so that it is on the PATH (Debian: apt-get install ${name})`,
  }: { readonly package?: string; readonly env?: NodeJS.ProcessEnv; readonly advice?: string } = {},
): string {
  const found = findOnPath(command, env);
  if (found === null) throw new Error(`${command} was not found: ${advice}`);
  return found;
}

export function findOnPath(name: string, env: NodeJS.ProcessEnv = process.env): string | null {
  for (const folder of (env["PATH"] ?? "").split(delimiter)) {
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
