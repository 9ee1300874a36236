import { spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "vitest";
import type { Finding } from "../../../src/cli/doctor/finding.ts";
import { entry } from "../../harness/relay-process.ts";
import { relayToken } from "../../harness/relay-settings.ts";
import { type Ran, runHere } from "../../harness/run-here.ts";

/** A real `wamid-relay` command, a process of its own, its standard input closed. */
export async function runCli(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ran> {
  const child = spawn(process.execPath, [entry, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let out = "";
  let err = "";
  child.stdout.setEncoding("utf8").on("data", (chunk: string) => {
    out += chunk;
  });
  child.stderr.setEncoding("utf8").on("data", (chunk: string) => {
    err += chunk;
  });
  const [code] = (await once(child, "close")) as [number | null];
  return { code, out, err };
}

/** The command on the settings file of a test's relay, in the test's process. */
export function runOn(relay: { readonly settingsPath: string }, ...args: string[]): Promise<Ran> {
  return runHere([...args, "--config", relay.settingsPath]);
}

/** The same in a process of its own: each command has a test that runs it so. */
export function runProcessOn(
  relay: { readonly settingsPath: string },
  ...args: string[]
): Promise<Ran> {
  return runCli([...args, "--config", relay.settingsPath]);
}

/** The command with `--relay`, as from another machine, in the test's process. */
export function runRemote(relay: { readonly url: string }, ...args: string[]): Promise<Ran> {
  return runHere([...args, "--relay", relay.url], { RELAY_TOKEN: relayToken });
}

/** What a command printed with `--json`. */
export function jsonOf<T>({ code, out, err }: Ran): T {
  if (code !== 0) throw new Error(`exit code ${code}: ${err}`);
  return JSON.parse(out) as T;
}

export async function doctorOn(relay: { readonly settingsPath: string }, ...args: string[]) {
  const { code, out, err } = await runOn(relay, "doctor", "--json", ...args);
  const { ok, checks } = JSON.parse(out) as {
    readonly ok: boolean;
    readonly checks: readonly Finding[];
  };
  expect(ok).toBe(code === 0);
  /** What it found of these checks, as `level message`. */
  const said = (...names: string[]) =>
    checks
      .filter(({ check }) => names.includes(check))
      .map(({ level, message }) => `${level} ${message}`);
  return { code, err, checks, said };
}
