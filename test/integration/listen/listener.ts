import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { onTestFinished } from "vitest";
import { entry } from "../../harness/relay-process.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";

/** A real `wamid-relay listen`, killed at the test's end. */
export interface ListenProcess {
  out(): string;
  err(): string;
  /** What it printed with `--json`. */
  said(type?: string): Record<string, unknown>[];
  /** Resolves once it is live; `times`: so often so far. */
  live(times?: number): Promise<void>;
  /** SIGTERM; gives the exit code. */
  stop(): Promise<number | null>;
  kill9(): Promise<void>;
  readonly ended: Promise<number | null>;
}

export function startListen(relayUrl: string, args: readonly string[], env: Readonly<Record<string, string>> = {}): ListenProcess {
  const child: ChildProcess = spawn(process.execPath, [entry, "listen", "--relay", relayUrl, ...args], {
    env: { ...process.env, RELAY_TOKEN: relayToken, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout?.setEncoding("utf8").on("data", (chunk: string) => {
    out += chunk;
  });
  child.stderr?.setEncoding("utf8").on("data", (chunk: string) => {
    err += chunk;
  });
  const ended = once(child, "close").then(([code]) => code as number | null);
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await ended;
  });
  const said = (type?: string) =>
    out
      .slice(0, out.lastIndexOf("\n") + 1)
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter((each) => type === undefined || each["type"] === type);
  return {
    out: () => out,
    err: () => err,
    said,
    async live(times = 1) {
      const isJson = args.includes("--json");
      const lives = () => (isJson ? said("hello").length : (`${out}\n${err}`.match(/^(listening to|live again)/gm) ?? []).length);
      await until(`it is live for the ${times}. time`, () => lives() >= times);
    },
    async stop() {
      child.kill("SIGTERM");
      return ended;
    },
    async kill9() {
      child.kill("SIGKILL");
      await ended;
    },
    ended,
  };
}
