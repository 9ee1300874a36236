import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, rm, stat, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { serveFlags } from "../../src/cli/node-flags.js";
import { freePort } from "../../test/setup/free-port.ts";
import { account, secret, source } from "../events.ts";
import { endProcess } from "./start-child.ts";

export interface RelayOptions {
  /** Where its one route, of all tracked messages, delivers to. */
  readonly destination: string;
  /** Deliveries in flight at once. */
  readonly concurrency: number;
  /**
   * What one process of several does; they share a database by `settings.storage`. Not given:
   * everything.
   */
  readonly role?: "receive" | "work";
  /** More of that route's destination. */
  readonly to?: Readonly<Record<string, unknown>>;
  /**
   * What `end` leaves to deliveries in flight before they are handed back; not given: the relay's
   * own default.
   */
  readonly shutdownTimeout?: string;
  /** Flags for Node beside those of `serve`. */
  readonly nodeFlags?: readonly string[];
  /** The `wamid-relay.js` of another checkout, for this side only. */
  readonly command?: string | undefined;
  /** More of the settings file. */
  readonly settings?: Readonly<Record<string, unknown>>;
}

export interface Relay {
  readonly port: number;
  readonly file: string;
  pid(): number;
  /** The end of what the process that runs now has printed. */
  output(): string;
  /** Registers messages through `POST /v1/messages/track`, a thousand at a time. */
  register(wamids: readonly string[]): Promise<void>;
  /** Events in the file, by what became of them (`GET /v1/stats`). */
  dispositions(): Promise<Record<string, number>>;
  /** An answer of the control API; fails unless it is a 2xx. */
  get(path: string): Promise<unknown>;
  /** Follows a stream of the control API (SSE) until `signal` aborts; resolves with its bytes. */
  follow(path: string, signal: AbortSignal): Promise<number>;
  /** Bytes of the database file and the files beside it. */
  diskBytes(): Promise<number>;
  /** SIGKILL, as a crash would. */
  kill(): Promise<void>;
  /** SIGTERM: it ends in order. */
  end(): Promise<void>;
  /**
   * Starts it again on the same file and port; resolves with the milliseconds from spawning to
   * `/readyz` answering 200.
   */
  start(): Promise<number>;
  /** Ends it and removes its folder. */
  stop(): Promise<void>;
}

/**
 * `BENCH_RELAY` names the `wamid-relay.js` of another checkout or of a build, to measure that one
 * instead.
 */
const ours =
  process.env["BENCH_RELAY"] ??
  fileURLToPath(new URL("../../src/cli/wamid-relay.js", import.meta.url));
/** Of the control API and the console. */
export const benchToken = "bench-control-token";
const readyWithinMs = 150_000;
/** As many as one call takes. */
const perCall = 1000;

/**
 * The relay as its users start it: the real `serve` command, a settings file, a new database file.
 */
export async function startRelay(options: RelayOptions): Promise<Relay> {
  const folder = await mkdtemp(join(tmpdir(), "wamid-relay-bench-"));
  const port = await freePort();
  const file = join(folder, "relay.db");
  const settings = join(folder, "relay.yaml");
  // JSON is YAML.
  await writeFile(settings, JSON.stringify(settingsOf(options, port, file)));
  const role = options.role === undefined ? [] : ["--role", options.role];
  let child: ChildProcess | null = null;
  let printed = "";
  const endWithUs = () => void child?.kill("SIGKILL");
  process.once("exit", endWithUs);

  const start = async () => {
    const startedAt = performance.now();
    // Without flags, the command restarts itself with its own, as it does for users. An inspector
    // must not open twice.
    const flags = options.nodeFlags === undefined ? [] : [...serveFlags, ...options.nodeFlags];
    child = spawn(
      process.execPath,
      [...flags, options.command ?? ours, "serve", "--config", settings, ...role],
      {
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    printed = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        printed = (printed + text).slice(-2000);
      });
    }
    await untilReady(child, port, () => printed);
    return performance.now() - startedAt;
  };
  const end = async (signal: "SIGKILL" | "SIGTERM") => {
    if (child !== null) await endProcess(child, signal);
  };
  const stop = async () => {
    process.removeListener("exit", endWithUs);
    await end("SIGKILL");
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await start();
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    port,
    file,
    pid: () => child?.pid ?? 0,
    output: () => printed,
    register: (wamids) => register(port, wamids),
    dispositions: () => dispositions(port),
    get: (path) => ask(port, path, { method: "GET" }),
    follow: (path, signal) => follow(port, path, signal),
    diskBytes: () => diskBytes(file),
    kill: () => end("SIGKILL"),
    end: () => end("SIGTERM"),
    start,
    stop,
  };
}

function settingsOf(options: RelayOptions, port: number, file: string): object {
  const { destination, concurrency, to = {}, shutdownTimeout, settings = {} } = options;
  return {
    server: {
      host: "127.0.0.1",
      port,
      ...(shutdownTimeout === undefined ? {} : { shutdownTimeout }),
    },
    storage: { driver: "sqlite", path: file },
    control: { tokens: [{ name: "bench", token: benchToken, scopes: ["read", "track"] }] },
    accounts: { [account]: {} },
    sources: {
      [source]: { account, kind: "events", signature: { service: "acme", secrets: [secret] } },
    },
    routes: [
      {
        name: "tracked",
        match: { events: ["message.*"], tracked: true },
        to: {
          url: destination,
          concurrency,
          allowPrivate: true,
          // An open breaker looks again within a second, so that draining starts when the
          // destination is back.
          breaker: { pause: "1s", longest: "1s" },
          ...to,
        },
      },
    ],
    log: { level: "error" },
    ...settings,
  };
}

async function untilReady(child: ChildProcess, port: number, output: () => string): Promise<void> {
  const deadline = performance.now() + readyWithinMs;
  while (performance.now() < deadline) {
    if (child.exitCode !== null || child.signalCode !== null) break;
    if ((await isListening(port)) && (await isReady(port))) return;
    await wait(5);
  }
  await endProcess(child, "SIGKILL");
  throw new Error(`the relay did not get ready: ${output().trim() || "it printed nothing"}`);
}

/**
 * A `fetch` that finds nobody takes a millisecond of the processor that the start is measured on.
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

async function isReady(port: number): Promise<boolean> {
  const answer = await fetch(`http://127.0.0.1:${port}/readyz`).catch(() => null);
  await answer?.arrayBuffer();
  return answer?.status === 200;
}

async function register(port: number, wamids: readonly string[]): Promise<void> {
  for (let from = 0; from < wamids.length; from += perCall) {
    const messages = wamids
      .slice(from, from + perCall)
      .map((wamid) => ({ account, wamid, reference: `order-${wamid.slice(-12)}` }));
    await ask(port, "/v1/messages/track", { method: "POST", body: JSON.stringify(messages) });
  }
}

async function dispositions(port: number): Promise<Record<string, number>> {
  const stats = (await ask(port, "/v1/stats", { method: "GET" })) as {
    dispositions: Record<string, number>;
  };
  return stats.dispositions;
}

async function ask(
  port: number,
  path: string,
  request: { method: string; body?: string },
): Promise<unknown> {
  const headers = {
    authorization: `Bearer ${benchToken}`,
    ...(request.body === undefined ? {} : { "content-type": "application/json" }),
  };
  const answer = await fetch(`http://127.0.0.1:${port}${path}`, { ...request, headers });
  const text = await answer.text();
  if (!answer.ok)
    throw new Error(`${request.method} ${path} answered ${answer.status}: ${text.slice(0, 500)}`);
  return JSON.parse(text);
}

async function follow(port: number, path: string, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  try {
    const answer = await fetch(`http://127.0.0.1:${port}${path}`, {
      headers: { authorization: `Bearer ${benchToken}` },
      signal,
    });
    if (!answer.ok) throw new Error(`GET ${path} answered ${answer.status}`);
    for await (const chunk of answer.body ?? []) bytes += (chunk as Uint8Array).length;
  } catch (error) {
    if (!signal.aborted) throw error;
  }
  return bytes;
}

async function diskBytes(file: string): Promise<number> {
  let bytes = 0;
  for (const name of [file, `${file}-wal`, `${file}-shm`]) {
    const found = await stat(name).catch(() => null);
    bytes += found?.size ?? 0;
  }
  return bytes;
}
