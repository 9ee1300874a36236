import { randomInt } from "node:crypto";
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A user cannot write into that of another. */
const folder = join(tmpdir(), `wamid-relay-ports-${process.getuid?.() ?? ""}`);
/** The system hands out ports from here on, for `listen(0)` and for outgoing connections. */
const ephemeralFrom = firstEphemeralPort();
/** Of the ports above, none is refused by `fetch` and browsers, which refuse 10080. */
const lowest = 10_081;
/** Files to remove at exit. */
const reserved = new Set<string>();

/**
 * A loopback port that stays free until this process listens on it, for tests that need an address
 * before or after something listens there. It lies below the range from which the system picks, and
 * a file named after it keeps other test processes away until this one exits. Throws when no port
 * is free.
 */
export async function freePort(): Promise<number> {
  mkdirSync(folder, { recursive: true });
  for (let tries = 0; tries < 1_000; tries += 1) {
    const port = randomInt(lowest, ephemeralFrom);
    if (reserve(port) && (await canListen(port))) return port;
  }
  throw new Error(`no free port between ${lowest} and ${ephemeralFrom}; remove ${folder}`);
}

function reserve(port: number): boolean {
  const file = join(folder, String(port));
  const own = join(folder, `pid-${process.pid}`);
  writeFileSync(own, String(process.pid));
  try {
    // A link appears whole or not at all: nobody reads a file without its process id.
    linkSync(own, file);
  } catch {
    if (isAlive(file)) return false;
    rmSync(file, { force: true });
    return false;
  }
  if (reserved.size === 0) process.once("exit", release);
  reserved.add(file).add(own);
  return true;
}

function release(): void {
  for (const file of reserved) rmSync(file, { force: true });
}

function isAlive(file: string): boolean {
  try {
    process.kill(Number(readFileSync(file, "utf8")), 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}

async function canListen(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const server = createServer();
  server.once("error", () => resolve(false));
  server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  return promise;
}

function firstEphemeralPort(): number {
  try {
    return Number(readFileSync("/proc/sys/net/ipv4/ip_local_port_range", "utf8").split(/\s+/)[0]);
  } catch {
    // The range that IANA names, which macOS and Windows use.
    return 49_152;
  }
}
