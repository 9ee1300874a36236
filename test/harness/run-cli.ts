import { execFile } from "node:child_process";
import { entry } from "./relay-process.ts";

/** Runs `wamid-relay` with these arguments as a process of its own and waits for its end. */
export function runCli(...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [entry, ...args], { timeout: 240_000 }, (_error, stdout, stderr) => {
      resolve({ code: child.exitCode ?? -1, stdout, stderr });
    });
  });
}
