import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { chmod, chown, copyFile, link, mkdir, mkdtemp, readdir, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, relative } from "node:path";
import { promisify } from "node:util";
import { Client } from "pg";
import { freePort } from "./free-port.ts";

/** The oldest version that the relay supports, and the newest. */
export type PostgresVersion = 14 | 18;

export interface PostgresOptions {
  /** Not given: the newest. */
  readonly version?: PostgresVersion;
  /** Commits wait for the disk. Not given: they do not, and may be lost with the server. */
  readonly durable?: boolean;
  /** Listens on a loopback port too. Not given: on a Unix socket only. */
  readonly tcp?: boolean;
  /** Follows this server, which may run, as a standby that it does not wait for. */
  readonly standbyOf?: Postgres;
  /** Folder of the data. Not given: in that of the server. */
  readonly disk?: string;
  /** More parameters, such as `{ max_connections: 10 }`. */
  readonly settings?: Readonly<Record<string, string | number>>;
}

export interface Postgres extends AsyncDisposable {
  /** Of the database `postgres`, as the superuser. */
  readonly url: string;
  /** With `tcp`, the loopback address; otherwise the folder of the socket. */
  readonly host: string;
  readonly port: number;
  /** Of the present process: a restart changes it. */
  readonly pid: number;
  /** Holds the data, in `data`, and the socket. */
  readonly dir: string;
  /**
   * SIGKILL ends it as a crash would, SIGQUIT at once, SIGINT in order. Resolves once no process of
   * it runs. Its folder stays.
   */
  kill(signal: "SIGKILL" | "SIGQUIT" | "SIGINT"): Promise<void>;
  /** Starts it again where clients expect it. One that still runs is ended in order first. */
  restart(): Promise<void>;
  /** Ends it in order and removes its folder. */
  stop(): Promise<void>;
}

const run = promisify(execFile);
const readyWithinMs = 150_000;
const endsWithinMs = 100_000;
/** PostgreSQL does not run as root: then it runs as `nobody`. */
const owner = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : null;
const notDurable = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" };

/**
 * Reads one process id per line, or an empty line once that process has ended. When its input ends,
 * because we said so or because our own process ended in whatever way, it ends the last one at once
 * and removes the folder.
 */
const guardScript = `
while read -r line; do pid=$line; done
[ -z "$pid" ] || kill -QUIT "$pid"
until rm -rf "$1"; do sleep 0.1; done
`;

/**
 * A PostgreSQL of one's own, with the superuser `relay` and no passwords. Resolves once it accepts
 * connections.
 */
export async function startPostgres(given: PostgresOptions = {}): Promise<Postgres> {
  const { version = 18, durable, tcp, standbyOf, disk, settings } = given;
  const native = findPackage(version);
  const dir = await mkdtemp(join(tmpdir(), "wamid-relay-postgres-"));
  // In a process group of its own, because Ctrl-C goes to all processes of ours.
  const guard = spawn("sh", ["-c", guardScript, "guard", dir], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  const guardEnded = once(guard, "exit");
  const removeFolder = async () => {
    guard.stdin.end();
    await guardEnded;
  };
  const data = join(disk ?? dir, "data");
  const options = { cwd: dir, env: { PATH: process.env["PATH"], TZ: "UTC" }, ...owner };
  const follows = standbyOf && {
    primary_conninfo: `host=${standbyOf.host} port=${standbyOf.port} user=relay`,
  };
  const parameters = { ...(durable ? {} : notDurable), ...follows, ...settings };

  const launch = async (port: number): Promise<ChildProcess> => {
    const all = {
      listen_addresses: tcp ? "127.0.0.1" : "",
      port,
      unix_socket_directories: dir,
      ...parameters,
    };
    const args = Object.entries(all).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
    const child = spawn(join(dir, "native/bin/postgres"), ["-D", data, ...args], {
      ...options,
      stdio: ["ignore", "ignore", "pipe"],
    });
    guard.stdin.write(`${child.pid}\n`);
    child.once("close", () => guard.stdin.writable && guard.stdin.write("\n"));
    await ready(child);
    return child;
  };

  let child: ChildProcess;
  let port = 5432;
  try {
    if (owner !== null)
      for (const folder of [dir, disk ?? dir]) await chown(folder, owner.uid, owner.gid);
    await linkPackage(native, join(dir, "native"));
    if (standbyOf !== undefined) await copyData(standbyOf, data, options);
    else {
      const cluster = [
        "-D",
        data,
        "-U",
        "relay",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "--no-sync",
      ];
      // A disk that is full stops the tables. A log that cannot be written would stop the server.
      const log = disk === undefined ? [] : ["--waldir", join(dir, "log")];
      await run(join(dir, "native/bin/initdb"), [...cluster, ...log], options);
    }
    if (!tcp) child = await launch(port);
    else [child, port] = await launchOnFreePort(launch);
  } catch (error) {
    await removeFolder();
    throw error;
  }

  const kill = (signal: NodeJS.Signals) => end(child, signal);
  const stop = async () => {
    await kill("SIGINT");
    await removeFolder();
  };
  return {
    url: tcp
      ? `postgres://relay@127.0.0.1:${port}/postgres`
      : `postgres://relay@/postgres?host=${encodeURIComponent(dir)}&port=${port}`,
    host: tcp ? "127.0.0.1" : dir,
    port,
    get pid() {
      return child.pid as number;
    },
    dir,
    kill,
    async restart() {
      await kill("SIGINT");
      child = await launch(port);
    },
    stop,
    [Symbol.asyncDispose]: stop,
  };
}

/** A copy of the data of a server that runs, as the package has no pg_basebackup. */
async function copyData(
  from: Postgres,
  data: string,
  options: { readonly cwd: string },
): Promise<void> {
  const client = new Client(from.url);
  await client.connect();
  try {
    await client.query("SELECT pg_backup_start('standby', true)");
    await run("cp", ["-a", join(from.dir, "data"), data], options);
    const label = (
      await client.query<{ labelfile: string }>("SELECT labelfile FROM pg_backup_stop(false)")
    ).rows[0]?.labelfile;
    const script = `rm postmaster.pid && touch standby.signal && cat > backup_label`;
    const writing = run("sh", ["-c", script], { ...options, cwd: data });
    writing.child.stdin?.end(label);
    await writing;
  } finally {
    await client.end();
  }
}

/** Folder of the programs, from one of the optional packages of package.json. */
function findPackage(version: PostgresVersion): string {
  const name = `postgres-${version}-${process.platform}-${process.arch}`;
  const folder = new URL(`../../node_modules/${name}/native`, import.meta.url).pathname;
  if (!existsSync(folder))
    throw new Error(
      `PostgreSQL ${version} was not found: run "npm ci", which installs ${name} if package.json names it`,
    );
  return folder;
}

/**
 * Links the package's files into a folder that PostgreSQL's user can read: a clone below /root is
 * closed to it. Install scripts are off, so the symbolic links to libraries are ours to make.
 */
async function linkPackage(from: string, to: string): Promise<void> {
  await mkdir(to);
  const entries = await readdir(from, { recursive: true, withFileTypes: true });
  const move = (path: string) => join(to, relative(from, path));
  for (const entry of entries)
    if (entry.isDirectory())
      await mkdir(move(join(entry.parentPath, entry.name)), { recursive: true });
  const files = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  // Another file system, or files of another user, cannot be linked to.
  await Promise.all(
    files.map((file) => link(file, move(file)).catch(() => copyFile(file, move(file)))),
  );
  const links: { source: string; target: string }[] = JSON.parse(
    readFileSync(join(from, "pg-symlinks.json"), "utf8"),
  );
  for (const { source, target } of links)
    await symlink(relative(dirname(target), source), join(dirname(to), target));
  // With a umask of 077, both are closed to others.
  if (owner === null) return;
  await chmod(to, 0o755);
  await Promise.all(entries.map((entry) => chmod(move(join(entry.parentPath, entry.name)), 0o755)));
}

/** Another process may take the port in between. */
async function launchOnFreePort(
  launch: (port: number) => Promise<ChildProcess>,
): Promise<[ChildProcess, number]> {
  for (let left = 3; ; left -= 1) {
    const port = await freePort();
    try {
      return [await launch(port), port];
    } catch (error) {
      if (left === 1) throw error;
    }
  }
}

/** Resolves once it accepts connections. Rejects with the end of its log. */
async function ready(child: ChildProcess): Promise<void> {
  let log = "";
  const { promise, resolve } = Promise.withResolvers<boolean>();
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    log = (log + text).slice(-2000);
    if (/ready to accept (read.only )?connections/.test(log)) resolve(true);
  });
  child.once("close", () => resolve(false));
  const late = setTimeout(() => resolve(false), readyWithinMs);
  const isReady = await promise;
  clearTimeout(late);
  if (isReady) return;
  await end(child, "SIGKILL");
  throw new Error(`PostgreSQL did not start: ${log.trim() || "no log"}`);
}

/**
 * Its log closes when the last of its processes has ended; only then can it start again on the same
 * data.
 */
async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.stderr?.closed) return;
  const closed = once(child, "close");
  child.kill(signal);
  const late = setTimeout(() => child.kill("SIGKILL"), endsWithinMs);
  await closed;
  clearTimeout(late);
}
