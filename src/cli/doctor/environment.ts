import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { dirname } from "node:path";
import { readVariables, type VariableSources } from "../../config/env-file.ts";
import { type Environment, readTree } from "../../config/tree.ts";
import { StoreRefused } from "../../store/port.ts";
import { isLocked } from "../../store/sqlite/lock.ts";
import { openReader } from "../../store/sqlite/read.ts";
import { type Finding, ok, skip } from "./finding.ts";

interface RelayEnvironment {
  /** Of the running relay, else of this command. */
  readonly env: Environment;
  /** Null: the settings file uses no variable. */
  readonly finding: Finding | null;
  readonly isRelays: boolean;
}

const check = "environment";

/**
 * The process environment for the variables of the settings file: that of the relay that has the file of the settings open,
 * because a reload reads the settings with it. A new variable in the shell of `doctor` is not in the relay's.
 */
export function relayEnvironment(config: string, sources: VariableSources): RelayEnvironment {
  const { env } = sources;
  const own = (finding: Finding | null): RelayEnvironment => ({ env, finding, isRelays: false });
  const unknown = (why: string): RelayEnvironment => own(skip(check, `${why}; variables have the values of this command`));
  let text: string;
  let variables: Environment;
  try {
    text = readFileSync(config, "utf8");
    variables = readVariables(config, sources);
  } catch {
    // The check of the settings reports it.
    return own(null);
  }
  const names = variablesIn(text);
  if (names.length === 0) return own(null);
  const storage = storageIn(text, config, variables);
  if (storage === null) return unknown("the store of the settings is not known");
  if (storage.driver === "redis") return unknown("the relay over Redis may run on any host");
  const holder = holderOf(storage.path);
  if (holder === null) return unknown("no relay runs");
  if (holder.pid === process.pid) return own(null);
  if (holder.host !== hostname()) return unknown(`the relay runs on ${holder.host}`);
  const relays = environmentOf(holder.pid);
  if (relays === null) return unknown(`this user cannot read the environment of process ${holder.pid}`);
  const differing = names.filter((name) => relays[name] !== env[name]);
  const also = differing.length === 0 ? "" : `; this command has other values for ${differing.join(", ")}`;
  return { env: relays, finding: ok(check, `variables have the values of the relay, process ${holder.pid}${also}`), isRelays: true };
}

/** Names of the variables that a settings file uses. Those in comments count too. */
function variablesIn(text: string): string[] {
  return [...new Set([...text.matchAll(/(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)(?:\}|:-)/g)].map(([, name = ""]) => name))].toSorted();
}

/** Reads only this part: the file may have faults. Null: it cannot be read. */
function storageIn(text: string, config: string, env: Environment): { driver: "redis" } | { driver: "sqlite"; path: string } | null {
  const { readable, value } = readTree(text, env, dirname(config));
  if (!readable || typeof value !== "object" || value === null) return null;
  const { driver, path = "data/relay.db" } = ((value as { storage?: unknown }).storage ?? {}) as { driver?: unknown; path?: unknown };
  if (driver === "redis") return { driver };
  return typeof path === "string" && !path.includes("${") ? { driver: "sqlite", path } : null;
}

/** The process that has the file open for writing. */
function holderOf(path: string): { readonly pid: number; readonly host: string } | null {
  if (!existsSync(path) || isLocked(path) !== true) return null;
  try {
    const reader = openReader(path);
    try {
      const [, pid, host] = /^process (\d+) on (.+)$/.exec(reader.file.holder() ?? "") ?? [];
      return pid === undefined || host === undefined ? null : { pid: Number(pid), host };
    } finally {
      void reader.close();
    }
  } catch (error) {
    if (error instanceof StoreRefused) return null;
    throw error;
  }
}

/** The environment that a process was started with, on Linux. Null: not readable. */
function environmentOf(pid: number): Environment | null {
  let text: string;
  try {
    text = readFileSync(`/proc/${pid}/environ`, "utf8");
  } catch {
    return null;
  }
  const pairs = text.split("\0").filter((pair) => pair.includes("="));
  return Object.fromEntries(pairs.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
}
