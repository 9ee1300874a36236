import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, closeSync, openSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { serveFlags } from "../../src/cli/node-flags.js";
import { makePlace, type PlaceOptions, type RelayPlace } from "./relay-place.ts";

export const entry = fileURLToPath(new URL("../../src/cli/wamid-relay.js", import.meta.url));

export interface RelayOptions extends PlaceOptions {
  readonly env?: Readonly<Record<string, string>>;
  /** Runs as this user and group; needs root. The folder is given to it. */
  readonly uid?: number;
  /** With `storage.driver: postgres`, what it does; default: both. */
  readonly role?: "receive" | "work";
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A real `wamid-relay serve`, with a temporary folder and a port of its own. */
export interface RelayProcess extends RelayPlace {
  pid(): number;
  isRunning(): boolean;
  /**
   * Starts it (again, on the same file and port); resolves once `/readyz` answers 200. Rejects with
   * its last words.
   */
  start(): Promise<void>;
  /** Starts it and waits for its end instead: for settings or files it should refuse. */
  startRefused(): Promise<Ended>;
  /** SIGKILL, as a crash would; resolves when it is gone. */
  kill9(): Promise<void>;
  /** SIGTERM; resolves when it has ended by itself. SIGKILL, and an error, if it does not. */
  stop(): Promise<Ended>;
  signal(signal: NodeJS.Signals): void;
  /** Resolves when the process that runs now has ended. */
  ended(): Promise<Ended>;
  /** Standard error of all processes so far, and the log's lines that are JSON. */
  stderr(): string;
  log(): Record<string, unknown>[];
}

const readyWithinMs = 150_000;
const endsWithinMs = 150_000;

/** Makes folder and settings and starts the relay. */
export async function startRelay(options: RelayOptions = {}): Promise<RelayProcess> {
  const relay = await makeRelay(options);
  await relay.start();
  return relay;
}

/** The same without starting it. */
export async function makeRelay(options: RelayOptions = {}): Promise<RelayProcess> {
  const role = options.role === undefined ? [] : ["--role", options.role];
  let child: ChildProcess | null = null;
  let gone: Promise<Ended> = Promise.resolve({ code: null, signal: null });

  const killWithUs = () => void child?.kill("SIGKILL");
  process.once("exit", killWithUs);
  const place = await makePlace(options, async () => {
    process.off("exit", killWithUs);
    child?.kill("SIGKILL");
    await gone;
  });
  const { folder, settingsPath, port } = place;
  const path = (name: string) => join(folder, name);

  function launch(): ChildProcess {
    if (isRunning()) throw new Error("the relay runs already");
    const out = openSync(path("stdout.log"), "a");
    const err = openSync(path("stderr.log"), "a");
    const as = options.uid === undefined ? {} : { uid: options.uid, gid: options.uid };
    const started = spawn(
      process.execPath,
      [...serveFlags, entry, "serve", "--config", settingsPath, ...role],
      {
        stdio: ["ignore", out, err],
        env: { ...process.env, ...options.env },
        ...as,
      },
    );
    closeSync(out);
    closeSync(err);
    child = started;
    gone = once(started, "exit").then(([code, signal]) => ({ code, signal }) as Ended);
    return started;
  }

  function isRunning(): boolean {
    return child !== null && child.exitCode === null && child.signalCode === null;
  }

  function read(name: string): string {
    try {
      return readFileSync(path(name), "utf8");
    } catch {
      return "";
    }
  }

  async function start(): Promise<void> {
    const startedAt = performance.now();
    launch();
    while (performance.now() - startedAt < readyWithinMs && isRunning()) {
      const status = (await isListening(port)) ? await readiness(port) : null;
      // Whoever answered must be ours: with the port taken, ours has ended or is about to.
      if (status === 200 && isRunning()) return;
      await wait(20);
    }
    child?.kill("SIGKILL");
    const { code, signal } = await gone;
    throw new Error(
      `the relay did not get ready (${signal ?? `exit code ${code}`}): ${read("stderr.log").trim().slice(-2000)}`,
    );
  }

  if (options.uid !== undefined) {
    chmodSync(folder, 0o755);
    for (const owned of [folder, settingsPath]) chownSync(owned, options.uid, options.uid);
  }
  return {
    ...place,
    pid: () => child?.pid ?? 0,
    isRunning,
    start,
    async startRefused() {
      launch();
      const late = setTimeout(() => child?.kill("SIGKILL"), readyWithinMs);
      const ended = await gone;
      clearTimeout(late);
      return ended;
    },
    async kill9() {
      child?.kill("SIGKILL");
      await gone;
    },
    async stop() {
      child?.kill("SIGTERM");
      const ended = await Promise.race([gone, wait(endsWithinMs, null)]);
      if (ended !== null) return ended;
      child?.kill("SIGKILL");
      await gone;
      throw new Error(`the relay did not end within ${endsWithinMs} ms of SIGTERM`);
    },
    signal: (signal) => void child?.kill(signal),
    ended: () => gone,
    stderr: () => read("stderr.log"),
    log: () => read("stdout.log").split("\n").flatMap(parseLine),
  };
}

/**
 * A `fetch` that finds nobody costs a millisecond of processor time, and most of those that wait
 * for a start do.
 */
function isListening(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, "127.0.0.1", () => {
    socket.destroy();
    resolve(true);
  });
  socket.once("error", () => resolve(false));
  return promise;
}

/** Status of `/readyz`; null without an answer. */
async function readiness(port: number): Promise<number | null> {
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null);
  await answer?.arrayBuffer();
  return answer?.status ?? null;
}

/** A crash may have cut the last line short. */
function parseLine(line: string): Record<string, unknown>[] {
  try {
    return line === "" ? [] : [JSON.parse(line) as Record<string, unknown>];
  } catch {
    return [];
  }
}
