import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import { entry, type RelayProcess } from "../../harness/relay-process.ts";
import { relayToken } from "../../harness/relay-settings.ts";

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

/** A real `wamid-relay` command, its standard input closed. */
export async function runCli(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ran> {
  const child = spawn(process.execPath, [entry, ...args], { env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
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

/** The command on the settings file of a test's relay. */
export function runOn(relay: RelayProcess, ...args: string[]): Promise<Ran> {
  return runCli([...args, "--config", join(relay.folder, "relay.yaml")]);
}

/** The command with `--relay`, as from another machine. */
export function runRemote(relay: RelayProcess, ...args: string[]): Promise<Ran> {
  return runCli([...args, "--relay", relay.url], { RELAY_TOKEN: relayToken });
}

/** What a command printed with `--json`. */
export function jsonOf<T>({ code, out, err }: Ran): T {
  if (code !== 0) throw new Error(`exit code ${code}: ${err}`);
  return JSON.parse(out) as T;
}
