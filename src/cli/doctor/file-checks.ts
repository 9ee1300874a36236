import { accessSync, constants, existsSync, type Stats, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { bytesText, type Finding, fail, ok, warn } from "./finding.ts";

/** Larger than this, the log of changes is not being taken into the store. */
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
  return [...checkModes(files), ...checkOwners(files, user), ...checkFolder(folder), ...checkWal(path)];
}

interface FoundFile {
  readonly file: string;
  readonly stats: Stats;
}

function checkModes(files: readonly FoundFile[]): Finding[] {
  // The lock file is empty: everything else holds people's data.
  const open = files.filter(({ file, stats }) => (stats.mode & 0o077) !== 0 && !file.endsWith(".lock")).map(({ file }) => file);
  if (open.length === 0) return [ok("store permissions", "only its user may read it")];
  return [
    warn(
      "store permissions",
      `others than its user may read ${open.join(", ")}: people's phone numbers are in it`,
      `chmod 600 ${open.join(" ")}`,
    ),
  ];
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

function checkWal(path: string): Finding[] {
  const bytes = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (bytes < largeWalBytes) return [ok("write-ahead log", bytesText(bytes))];
  return [
    warn(
      "write-ahead log",
      `${path}-wal has grown to ${bytesText(bytes)}: something reads the store without end`,
      "end long-running readers (backups, sqlite3 shells) of the file",
    ),
  ];
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
