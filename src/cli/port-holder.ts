import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { isIPv4 } from "node:net";
import { basename } from "node:path";
import { CommandFailed } from "./io.ts";
import { ownAddress, probeListener } from "./reach-relay.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}

/** Longest wait for a listener to identify itself. */
const answerWithinMs = 2_000;

/** The process that listens where a relay should: `process 12 (node server.js)`. Names no more than this user may see. */
export async function portHolder(address: Address): Promise<string> {
  const holder = holderText(listeningProcess(address));
  const url = ownAddress(address);
  try {
    const found = url === null ? null : await probeListener(url, answerWithinMs);
    if (found?.kind !== "relay") return holder;
    return `another wamid-relay: ${holder}, instance ${found.instance}, version ${found.version}`;
  } catch (error) {
    if (error instanceof CommandFailed) return holder;
    throw error;
  }
}

function holderText(found: ListeningProcess | null): string {
  if (found === null) return "another process";
  if (found.pid === null) return `a process of user ${found.uid}`;
  return `process ${found.pid} (${commandOf(found.pid)})`;
}

interface ListeningProcess {
  readonly uid: number;
  /** Null: this user may not see it. */
  readonly pid: number | null;
}

/** The process that listens at `address`, on Linux; null elsewhere, and where nothing is found. */
export function listeningProcess(address: Address): ListeningProcess | null {
  for (const table of ["/proc/net/tcp", "/proc/net/tcp6"]) {
    const socket = listeningSocket(textOf(table), address);
    if (socket !== null) return { uid: socket.uid, pid: processWith(`socket:[${socket.inode}]`) };
  }
  return null;
}

const listening = "0A";

/** Finds a listening socket in the text of `/proc/net/tcp` or `tcp6`. */
export function listeningSocket(table: string, { host, port }: Address): { readonly uid: number; readonly inode: string } | null {
  const wanted = isIPv4(host) && host !== "0.0.0.0" ? ipv4Hex(host) : null;
  for (const line of table.split("\n").slice(1)) {
    const [, local = "", , state, , , , uid, , inode] = line.trim().split(/\s+/);
    const [address = "", portHex = ""] = local.split(":");
    if (state !== listening || Number.parseInt(portHex, 16) !== port || inode === undefined) continue;
    // A listener on every address holds this one too. IPv4 addresses are mapped into IPv6.
    if (wanted === null || /^0+$/.test(address) || address.endsWith(wanted)) return { uid: Number(uid), inode };
  }
  return null;
}

/** As the kernel writes it, on a little-endian machine. */
function ipv4Hex(address: string): string {
  const bytes = address.split(".").map((part) => Number(part).toString(16).padStart(2, "0"));
  return bytes.reverse().join("").toUpperCase();
}

function processWith(descriptor: string): number | null {
  for (const name of namesIn("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const folder = `/proc/${name}/fd`;
    if (namesIn(folder).some((fd) => linkOf(`${folder}/${fd}`) === descriptor)) return Number(name);
  }
  return null;
}

/** The program and the file that it runs: `node server.js`. Other arguments may hold secrets. */
function commandOf(pid: number): string {
  const [program = "", ...args] = textOf(`/proc/${pid}/cmdline`).split("\0");
  if (program === "") return "unknown command";
  // Node's own flags come first. Only a script is named: the argument of another program may be a secret.
  const script = basename(program).startsWith("node") ? args.find((argument) => !argument.startsWith("-")) : undefined;
  return [program, script ?? ""]
    .map((path) => basename(path))
    .join(" ")
    .trim();
}

// Processes end while they are looked at, and some are not this user's.
function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

function linkOf(path: string): string | null {
  try {
    return readlinkSync(path);
  } catch {
    return null;
  }
}

function textOf(path: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch {
    return "";
  }
}
