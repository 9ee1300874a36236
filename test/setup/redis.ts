import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { findProgram } from "./find-program.ts";
import { freePort } from "./free-port.ts";

export interface RedisOptions {
  /** When the append-only file is synced to disk. Not given: no append-only file. */
  readonly appendonly?: "always" | "everysec";
  /** Folder for the data. Not given: a temporary one, removed by `stop()`. */
  readonly dir?: string;
  /** Not given: a free one. Give the old one to start again where clients expect it. */
  readonly port?: number;
  /** More of its command line, such as `["--requirepass", "secret"]`. */
  readonly args?: readonly string[];
}

export interface Redis {
  readonly port: number;
  readonly url: string;
  readonly pid: number;
  readonly dir: string;
  /**
   * Ends it in order (SIGTERM) and removes its folder, if it was a temporary one. Again, or after
   * `kill()`: only the folder.
   */
  stop(): Promise<void>;
  /** Ends it at once (SIGKILL), as a crash would. Its folder stays until `stop()`. */
  kill(): Promise<void>;
  /** SIGSTOP: connections stay, new ones are taken, and nothing is answered. */
  hang(): void;
  /** SIGCONT. */
  goOn(): void;
}

const readyWithinMs = 150_000;
const endsWithinMs = 100_000;

/**
 * A Redis of one's own on loopback: `noeviction`, nothing saved but what `appendonly` asks for.
 * Resolves once PING is answered.
 */
export async function startRedis(options: RedisOptions = {}): Promise<Redis> {
  const program = findProgram("redis-server");
  const dir = options.dir ?? (await mkdtemp(join(tmpdir(), "wamid-relay-redis-")));
  // Another process may take the free port in between; a port that was asked for is not replaced.
  const tries = options.port === undefined ? 3 : 1;
  for (let left = tries; ; left -= 1) {
    const port = options.port ?? (await freePort());
    try {
      const child = await launch(program, dir, port, options);
      return handle(child, port, dir, options.dir === undefined);
    } catch (error) {
      if (left > 1) continue;
      if (options.dir === undefined) await rm(dir, { recursive: true, force: true });
      throw error;
    }
  }
}

async function launch(
  program: string,
  dir: string,
  port: number,
  { appendonly, args: more = [] }: RedisOptions,
): Promise<ChildProcess> {
  const durability =
    appendonly === undefined
      ? ["--appendonly", "no"]
      : ["--appendonly", "yes", "--appendfsync", appendonly];
  const base = [
    "--bind",
    "127.0.0.1",
    "--port",
    String(port),
    "--dir",
    dir,
    "--save",
    "",
    "--maxmemory-policy",
    "noeviction",
  ];
  const args = [...base, ...durability, ...more];
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
  // It writes its log here: the end of it is the reason when it does not start.
  let log = "";
  let listens = false;
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    log = (log + text).slice(-2000);
    listens ||= log.includes("Ready to accept connections");
  });
  // Not its exit, which may be noticed before the last of its log is read.
  const gone = once(child, "close").then(() => "gone" as const);
  const deadline = Date.now() + readyWithinMs;
  while (Date.now() < deadline) {
    // With the port taken somebody else answers: ours must have said so itself.
    if (listens && (await answersPing(port))) return child;
    if ((await Promise.race([gone, wait(10, "running" as const)])) === "gone") break;
  }
  child.kill("SIGKILL");
  throw new Error(
    `redis-server did not start on port ${port}: ${log.trim().split("\n").at(-1) ?? "no log"}`,
  );
}

function handle(child: ChildProcess, port: number, dir: string, ownsDir: boolean): Redis {
  const endWithUs = () => void child.kill("SIGKILL");
  process.once("exit", endWithUs);
  const end = async (signal: "SIGTERM" | "SIGKILL") => {
    process.removeListener("exit", endWithUs);
    if (child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, "exit");
    child.kill(signal);
    // A stopped one takes SIGTERM once it goes on; one in an endless script never does.
    child.kill("SIGCONT");
    const late = setTimeout(() => child.kill("SIGKILL"), endsWithinMs);
    await exited;
    clearTimeout(late);
  };
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    pid: child.pid as number,
    dir,
    kill: () => end("SIGKILL"),
    hang: () => void child.kill("SIGSTOP"),
    goOn: () => void child.kill("SIGCONT"),
    async stop() {
      await end("SIGTERM");
      if (ownsDir) await rm(dir, { recursive: true, force: true });
    },
  };
}

/**
 * True when PING is answered with PONG, or with a demand for a password; false while nothing
 * listens or files are still being loaded.
 */
function answersPing(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, "127.0.0.1", () => socket.write("PING\r\n"));
  socket.setTimeout(1000, () => socket.destroy());
  socket.once("data", (data) => {
    resolve(/^(\+PONG|-NOAUTH)/.test(data.toString("latin1")));
    socket.destroy();
  });
  socket.once("error", () => resolve(false));
  socket.once("close", () => resolve(false));
  return promise;
}
