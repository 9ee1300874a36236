import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { endProcess } from "../process/start-child.ts";

export interface SandboxOptions {
  readonly webhook: string;
  /** Signs what is posted to it. */
  readonly secret: string;
  readonly speed: number;
  /** What comes before the command line, as `taskset -c 0`. */
  readonly prefix: readonly string[];
}

export interface SandboxProcess {
  readonly pid: number;
  readonly port: number;
  readonly key: string;
  readonly templateId: string;
  /** Deliveries that have not come to their end. */
  waiting(): Promise<number>;
  /** Resolves once none is left; rejects when some still are after `withinMs` (at most 600,000). */
  drained(withinMs: number): Promise<void>;
  stop(): Promise<void>;
}

/**
 * `BENCH_SANDBOX` names the `wamid-relay.js` of another checkout or of a build, to measure that one
 * instead.
 */
const command =
  process.env["BENCH_SANDBOX"] ??
  fileURLToPath(new URL("../../src/cli/wamid-relay.js", import.meta.url));

/** The sandbox as its users start it: the real command, in memory, without caps and quotas. */
export async function startSandbox({
  webhook,
  secret,
  speed,
  prefix,
}: SandboxOptions): Promise<SandboxProcess> {
  const options = [
    "--port",
    "0",
    "--plan",
    "enterprise",
    "--unlimited",
    "--quiet",
    "--json",
    "--seed",
    "bench",
  ];
  const flags = [...options, "--speed", String(speed), "--webhook", webhook, "--secret", secret];
  const [program = process.execPath, ...args] = [
    ...prefix,
    process.execPath,
    ...profiling(),
    command,
    "sandbox",
    ...flags,
  ];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  const endWithUs = () => void child.kill("SIGKILL");
  process.once("exit", endWithUs);
  const { promise, resolve, reject } = Promise.withResolvers<{
    url: string;
    key: string;
    templateId: string;
  }>();
  createInterface({ input: child.stdout }).once("line", (line) => resolve(JSON.parse(line)));
  child.once("error", reject);
  child.once("exit", (code, signal) => reject(new Error(`the sandbox ended (${signal ?? code})`)));
  const { url, key, templateId } = await promise;
  const waiting = async (forMs = 0) => {
    const answer = await fetch(`${url}/sandbox/deliveries/waiting?forMs=${forMs}`);
    return ((await answer.json()) as { waiting: number }).waiting;
  };
  return {
    // `taskset` becomes the command it runs.
    pid: child.pid as number,
    port: Number(new URL(url).port),
    key,
    templateId,
    waiting: () => waiting(),
    async drained(withinMs) {
      const left = await waiting(withinMs);
      if (left > 0) throw new Error(`${left} deliveries still wait after ${withinMs} ms`);
    },
    async stop() {
      process.removeListener("exit", endWithUs);
      // In order, so that a profile is written.
      await endProcess(child, "SIGTERM");
    },
  };
}

/** `BENCH_PROFILE` names a folder for a `.cpuprofile` of the sandbox. */
function profiling(): string[] {
  const folder = process.env["BENCH_PROFILE"];
  return folder === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${folder}`];
}
