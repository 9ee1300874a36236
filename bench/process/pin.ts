import { execFileSync } from "node:child_process";

/**
 * The processors that this process may run on, and how to keep a process to some of them; null
 * where `taskset` is not on the PATH.
 */
export interface Pinning {
  readonly processors: readonly number[];
  /**
   * All threads that the process has now; those it starts later follow the one that starts them.
   */
  pin(pid: number, processors: readonly number[]): void;
  /** What comes before a command line so that it runs on these processors only. */
  prefix(processors: readonly number[]): readonly [string, ...string[]];
}

export function findPinning(): Pinning | null {
  try {
    const said = taskset("-c", "-p", String(process.pid));
    return {
      processors: listOf(said.slice(said.lastIndexOf(":") + 1)),
      pin: (pid, processors) => void taskset("-a", "-c", "-p", processors.join(","), String(pid)),
      prefix: (processors) => ["taskset", "-c", processors.join(",")],
    };
  } catch {
    return null;
  }
}

function taskset(...args: string[]): string {
  return execFileSync("taskset", args, { encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] });
}

/** `0,2-4` → 0, 2, 3, 4 */
function listOf(text: string): number[] {
  return text
    .trim()
    .split(",")
    .flatMap((part) => {
      const [first = Number.NaN, last = first] = part.split("-").map(Number);
      return Array.from({ length: last - first + 1 }, (_, index) => first + index);
    });
}
