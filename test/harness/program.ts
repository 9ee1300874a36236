import { type SpawnOptions, spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { until } from "./until.ts";

/** Runs a program until the test's end at most. */
export function startProgram(command: string, args: readonly string[], options: SpawnOptions = {}) {
  const child = spawn(command, args, { ...options, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding("utf8").on("data", (text: string) => (output += text));
  // Not its streams' end: a child of its own may hold them.
  const ended = once(child, "exit") as Promise<
    [code: number | null, signal: NodeJS.Signals | null]
  >;
  const end = (signal: NodeJS.Signals) => {
    child.kill(signal);
    return ended;
  };
  onTestFinished(async () => void (await end("SIGTERM")));
  return {
    /** What it has printed. */
    output: () => output,
    end,
    /** As `until`, but fails with its output once it has ended. */
    until: <T>(what: string, condition: () => T | Promise<T>) =>
      until(what, () => {
        if (child.exitCode !== null || child.signalCode !== null)
          throw new Error(`${command} has ended: ${output.slice(-2000)}`);
        return condition();
      }),
  };
}
