import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { entry } from "./relay-process.ts";
import { tempFolder } from "./temp-folder.ts";

export interface Shell {
  /** Where its scripts run; `bin` is on their PATH. */
  readonly folder: string;
  /** Runs a script to its end. What it leaves in the background ends with it. */
  run(
    lines: readonly string[],
    env?: Readonly<Record<string, string>>,
  ): Promise<{ readonly code: number | null; readonly out: string }>;
}

/** A shell for commands as a page has them, in a temporary folder. */
export function openShell(): Shell {
  const folder = tempFolder();
  mkdirSync(join(folder, "bin"));
  symlinkSync(entry, join(folder, "bin/wamid-relay"));
  return {
    folder,
    async run(lines, env = {}) {
      const child = spawn("bash", ["-c", ["set -e", ...lines].join("\n")], {
        cwd: folder,
        env: { ...process.env, ...env, PATH: `${join(folder, "bin")}:${process.env["PATH"]}` },
        detached: true,
        stdio: ["ignore", "pipe", "pipe"],
      });
      let out = "";
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (chunk) => (out += chunk));
      const [code] = (await once(child, "exit")) as [number | null];
      endGroup(child.pid as number);
      return { code, out };
    },
  };
}

/**
 * Whoever is left of a group of processes. Not by the command `kill`: Debian's takes the first
 * digit of a group for the group.
 */
export function endGroup(leader: number): void {
  try {
    process.kill(-leader, "SIGKILL");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
