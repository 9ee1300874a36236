import { accessSync, constants, existsSync, type Stats, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Settings } from "../../config/schema.ts";
import { StoreRefused } from "../../store/port.ts";
import { schemaVersion } from "../../store/schema/ddl.ts";
import { isLocked } from "../../store/sqlite/lock.ts";
import { openReader, type StoreReader } from "../../store/sqlite/reader.ts";
import type { RouteBacklog } from "../../store/views.ts";
import { bytesText, type Finding, fail, ok, skip, spanText, warn } from "./finding.ts";
import type { StoreUser } from "./relay.ts";

/** Opens the file read-only; a finding when that fails. */
export function openStoreToCheck(path: string): {
  readonly reader: StoreReader | null;
  readonly findings: Finding[];
} {
  try {
    const reader = openReader(path);
    return { reader, findings: [ok("schema", `version ${schemaVersion}`)] };
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    return { reader: null, findings: [{ check: "store", level: "fail", message: error.message }] };
  }
}

export function checkHolder(
  path: string,
  reader: StoreReader,
): { readonly isHeld: boolean; readonly users: readonly StoreUser[] | null; readonly finding: Finding } {
  const held = isLocked(path);
  if (held === null) {
    return { isHeld: false, users: null, finding: warn("holder", `${path}.lock cannot be read`, "run doctor as the user of the relay") };
  }
  const last = reader.file.holder();
  const id = reader.file.instance();
  return {
    isHeld: held,
    users: !held ? [] : id === null ? null : [{ id, text: last ?? "a process" }],
    finding: ok("holder", held ? `held by ${last ?? "a relay"}` : `held by nobody${last === null ? "" : `; last by ${last}`}`),
  };
}

/** `deep`: has SQLite read the whole file. */
export function checkIntegrity(reader: StoreReader, deep: boolean): Finding {
  if (!deep) return skip("integrity", "--deep reads the whole file");
  const damage = reader.file.findDamage();
  if (damage === null) return ok("integrity", "the whole file is in order");
  return fail("integrity", `the file is damaged: ${damage}`, "stop the relay, and restore a copy or use sqlite3's .recover");
}

/** What waits, and routes missing from the settings. */
export function* judgeBacklog(backlog: readonly RouteBacklog[], routes: Settings["routes"]): Generator<Finding> {
  const names = new Set(routes.map(({ name }) => name));
  const openOf = ({ waiting, held }: RouteBacklog): number => waiting + held;
  yield ok("backlog", `${backlog.reduce((sum, entry) => sum + openOf(entry), 0)} deliveries wait`);
  for (const entry of backlog) {
    const { route } = entry;
    if (names.has(route) || openOf(entry) === 0 || route.startsWith("proxy:")) continue;
    const text = `${openOf(entry)} deliveries wait for the route ${route}, which is not in the settings`;
    yield warn("backlog", text, "put the route back, by its old name");
  }
}

/** Above this size, the WAL is not being checkpointed. */
const largeWalBytes = 256 * 1024 * 1024;

/** Permissions and owners of the store's files, and whether its folder takes new ones. */
export function checkStoreFiles(path: string, user: number | undefined): Finding[] {
  const folder = dirname(resolve(path));
  if (!existsSync(path)) {
    const nearest = nearestFolder(folder);
    return [
      mayWrite(nearest)
        ? ok("store", `there is none at ${path} yet; "wamid-relay serve" makes it`)
        : fail("store", `${path} does not exist and cannot be made: ${nearest} is not writable`, "create the folder for the relay's user"),
    ];
  }
  const files = [path, `${path}-wal`, `${path}-shm`, `${path}.lock`].flatMap((file) => {
    const stats = statSync(file, { throwIfNoEntry: false });
    return stats === undefined ? [] : [{ file, stats }];
  });
  return [checkModes(files), ...checkOwners(files, user), ...checkFolder(folder), checkWal(path)];
}

interface FoundFile {
  readonly file: string;
  readonly stats: Stats;
}

function checkModes(files: readonly FoundFile[]): Finding {
  // The lock file is empty; all others hold personal data.
  const open = files.filter(({ file, stats }) => (stats.mode & 0o077) !== 0 && !file.endsWith(".lock")).map(({ file }) => file);
  if (open.length === 0) return ok("store permissions", "only its user may read it");
  return warn(
    "store permissions",
    `others than its user may read ${open.join(", ")}: people's phone numbers are in it`,
    `chmod 600 ${open.join(" ")}`,
  );
}

function checkOwners(files: readonly FoundFile[], user: number | undefined): Finding[] {
  const [store, ...others] = files;
  if (store === undefined) return [];
  const owner = store.stats.uid;
  const strangers = others.filter(({ stats }) => stats.uid !== owner).map(({ file }) => file);
  if (strangers.length > 0) {
    return [
      fail(
        "store owner",
        `${store.file} belongs to user ${owner}, but ${strangers.join(", ")} to another: the relay cannot use both`,
        `chown ${owner} ${strangers.join(" ")}`,
      ),
    ];
  }
  if (user === undefined || user === 0 || user === owner) return [ok("store owner", `user ${owner}`)];
  return [warn("store owner", `the store belongs to user ${owner}, and this is user ${user}`, "run doctor as the user of the relay")];
}

function checkFolder(folder: string): Finding[] {
  if (mayWrite(folder)) return [];
  return [fail("store folder", `${folder} is not writable: SQLite keeps files beside the store`, "make it writable for the relay's user")];
}

function checkWal(path: string): Finding {
  const bytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes < largeWalBytes) return ok("write-ahead log", bytesText(bytes));
  return warn(
    "write-ahead log",
    `${path}-wal has grown to ${bytesText(bytes)}: something reads the store without end`,
    "end long-running readers (backups, sqlite3 shells) of the file",
  );
}

function nearestFolder(folder: string): string {
  let nearest = folder;
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
  return nearest;
}

function mayWrite(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

const dayMs = 86_400_000;
/** A rate over less than this does not predict a day. */
const shortestSpanMs = 3_600_000;

interface Space {
  readonly freeBytes: number;
  /** Size of the store without free pages. */
  readonly usedBytes: number;
  /** Growth of the last day, at the average event size; null: unknown yet. */
  readonly perDayBytes: number | null;
  /** How long events are kept, in milliseconds. */
  readonly keptMs: number;
}

/** Compares free disk space with the store's growth until retention balances it. */
export function judgeSpace({ freeBytes, usedBytes, perDayBytes, keptMs }: Space): Finding {
  const check = "disk space";
  const free = `${bytesText(freeBytes)} free, the store has ${bytesText(usedBytes)}`;
  const todo = "make room, or keep events for less time (retention)";
  if (freeBytes < 64 * 1024 ** 2) return fail(check, `${free}: events will soon be answered 503`, todo);
  if (perDayBytes !== null) {
    const toGrow = Math.max(0, perDayBytes * (keptMs / dayMs) - usedBytes);
    const growth = `${free}; grows by ${bytesText(perDayBytes)} a day`;
    const leftMs = perDayBytes === 0 ? Number.POSITIVE_INFINITY : (freeBytes / perDayBytes) * dayMs;
    if (toGrow > freeBytes) {
      const text = `${growth}: full in ${spanText(leftMs)}`;
      return leftMs < 2 * dayMs ? fail(check, text, todo) : warn(check, text, todo);
    }
    if (freeBytes >= 512 * 1024 ** 2) return ok(check, growth);
  }
  return freeBytes < 512 * 1024 ** 2 ? warn(check, free, todo) : ok(check, free);
}

export async function checkSpace(path: string, reader: StoreReader, now: number, keptMs: number): Promise<Finding> {
  const { bavail, bsize } = statfsSync(dirname(resolve(path)));
  const usedBytes = reader.file.usedBytes();
  return judgeSpace({ freeBytes: bavail * bsize, usedBytes, perDayBytes: await growthPerDay(reader.read, usedBytes, now), keptMs });
}

async function growthPerDay({ listen }: StoreReader["read"], usedBytes: number, now: number): Promise<number | null> {
  const { oldest, newest, oldestAt } = await listen.ends();
  if (oldestAt === null) return null;
  const from = Math.max(oldestAt, now - dayMs);
  if (now - from < shortestSpanMs) return null;
  const bytesEach = usedBytes / (newest - oldest + 1);
  return ((newest - (await listen.seqBefore(from))) * bytesEach * dayMs) / (now - from);
}
