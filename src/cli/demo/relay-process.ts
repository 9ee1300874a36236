import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { CommandFailed } from "../io.ts";

interface RelayProcess {
  /** Aborts when the process ends by itself; the reason is a {@link CommandFailed} that shows its last words. */
  readonly ended: AbortSignal;
  /** Asks it to drain and end; kills it when it does not. Safe to call twice. */
  stop(): Promise<void>;
}

/** How long a relay that was asked to end may take, in milliseconds; its own limit is 3 s. */
const stopWithinMs = 6_000;
const readyWithinMs = 10_000;

/** Starts `wamid-relay serve` as a child and waits until it is ready. Its output goes to `logPath`. */
export async function startRelay(options: {
  readonly settingsPath: string;
  readonly logPath: string;
  readonly url: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}): Promise<RelayProcess> {
  const { settingsPath, logPath, url, env, signal } = options;
  // The entry is beside this folder, in a checkout and in dist alike.
  const entry = fileURLToPath(new URL("../wamid-relay.js", import.meta.url));
  const log = openSync(logPath, "w");
  const child = spawn(process.execPath, [entry, "serve", "--config", settingsPath], { stdio: ["ignore", log, log], env: { ...env } });
  closeSync(log);
  const ended = new AbortController();
  let stopping = false;
  const lastWords = (why: string) => new CommandFailed(`${why}; its last lines:\n${tail(logPath, 15)}`);
  child.once("error", (error) => ended.abort(new CommandFailed(`the relay could not be started: ${error.message}`)));
  child.once("exit", (code, by) => {
    if (!stopping) ended.abort(lastWords(`the relay ended unexpectedly (${by ?? `exit code ${code}`})`));
  });
  const stop = async () => {
    stopping = true;
    await endChild(child);
  };
  try {
    await waitReady(url, AbortSignal.any([signal, ended.signal]), () =>
      lastWords(`the relay was not ready within ${readyWithinMs / 1000} s`),
    );
  } catch (error) {
    await stop();
    throw error;
  }
  return { ended: ended.signal, stop };
}

/** A port that is free now. Somebody else may take it before the relay does; then the relay says so and the demo ends. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("a TCP server without a port");
  return address.port;
}

async function waitReady(url: string, signal: AbortSignal, late: () => Error): Promise<void> {
  const deadline = Date.now() + readyWithinMs;
  for (;;) {
    signal.throwIfAborted();
    const isReady = await fetch(`${url}/readyz`, { signal: AbortSignal.any([signal, AbortSignal.timeout(1_000)]) }).then(
      (answer) => answer.ok,
      () => false,
    );
    if (isReady) return;
    if (Date.now() > deadline) throw late();
    await sleep(50);
  }
}

async function endChild(child: ChildProcess): Promise<void> {
  const isOver = () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
  if (isOver()) return;
  const over = once(child, "exit");
  child.kill("SIGTERM");
  const kill = setTimeout(() => child.kill("SIGKILL"), stopWithinMs);
  await over;
  clearTimeout(kill);
}

function tail(path: string, lines: number): string {
  return readFileSync(path, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
}
