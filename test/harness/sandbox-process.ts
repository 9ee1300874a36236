import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { entry } from "./relay-process.ts";
import { until } from "./until.ts";

export interface SandboxProcess {
  /** Lines of standard output so far; standard error in one text. */
  readonly lines: readonly string[];
  stderr(): string;
  readonly child: ChildProcess;
  /** Resolves when it has ended. */
  ended(): Promise<{ readonly code: number | null; readonly signal: NodeJS.Signals | null }>;
}

/** A real `wamid-relay sandbox` with these arguments; killed at the test's end. */
export function spawnSandbox(
  args: readonly string[],
  { env = {}, cwd }: { env?: Record<string, string>; cwd?: string } = {},
): SandboxProcess {
  const child = spawn(process.execPath, [entry, "sandbox", ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
    ...(cwd === undefined ? {} : { cwd }),
  });
  const lines: string[] = [];
  let errors = "";
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  child.stderr.on("data", (chunk) => (errors += chunk));
  const ended = once(child, "close").then(
    ([code, signal]) => ({ code, signal }) as Awaited<ReturnType<SandboxProcess["ended"]>>,
  );
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  return { lines, stderr: () => errors, child, ended: () => ended };
}

/** What `--json` says once it listens. */
export interface ReadyLine {
  readonly what: "ready";
  readonly url: string;
  readonly apiUrl: string;
  readonly key: string;
  readonly secret: string;
  readonly templateId: string;
  readonly webhooks: readonly string[];
}

export async function readyLine(sandbox: SandboxProcess): Promise<ReadyLine> {
  const line = await until(`the sandbox is ready: ${sandbox.stderr()}`, () => sandbox.lines[0]);
  return JSON.parse(line) as ReadyLine;
}
