import { accessSync, constants, existsSync, type Stats, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Settings } from "../../config/schema.ts";
import type { DeliveryGroup } from "../../model/answers.ts";
import { StoreRefused } from "../../store/port.ts";
import { schemaVersion } from "../../store/schema/ddl.ts";
import { isLocked } from "../../store/sqlite/file.ts";
import { openReader, type StoreReader } from "../../store/sqlite/reader.ts";
import { bytesText, type Finding, fail, ok, skip, warn } from "./finding.ts";
import type { Held } from "./relay.ts";

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

/** The process that holds the file, which the reader names. */
export function checkHolder(path: string, reader: StoreReader | null): { readonly held: Held; readonly finding: Finding } {
  const isLockHeld = isLocked(path);
  if (isLockHeld === null) {
    const finding = warn("holder", `${path}.lock cannot be read`, "run doctor as the user of the relay");
    return { held: { isHeld: false, users: null }, finding };
  }
  const last = reader?.file.holder() ?? null;
  const id = reader?.file.instance() ?? null;
  return {
    held: { isHeld: isLockHeld, users: !isLockHeld ? [] : id === null ? null : [{ id, text: last ?? "a process" }] },
    finding: ok("holder", isLockHeld ? `held by ${last ?? "a relay"}` : `held by nobody${last === null ? "" : `; last by ${last}`}`),
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
export function judgeBacklog(groups: readonly Pick<DeliveryGroup, "route" | "state" | "count">[], routes: Settings["routes"]): Finding[] {
  const waiting = new Map<string, number>();
  for (const { route, state, count } of groups) if (state !== "dead") waiting.set(route, (waiting.get(route) ?? 0) + count);
  const missing = [...waiting].filter(([route]) => !route.startsWith("proxy:") && !routes.some(({ name }) => name === route));
  return [
    ok("backlog", `${[...waiting.values()].reduce((sum, count) => sum + count, 0)} deliveries wait`),
    ...missing.map(([route, count]) => {
      const text = `${count} deliveries wait for the route ${route}, which is not in the settings`;
      return warn("backlog", text, "put the route back, by its old name");
    }),
  ];
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

const MiB = 1024 ** 2;

/** Free disk space beside the store. */
export function judgeSpace(freeBytes: number, usedBytes: number): Finding {
  const check = "disk space";
  const text = `${bytesText(freeBytes)} free, the store has ${bytesText(usedBytes)}`;
  const todo = "make room, or keep events for less time (retention)";
  if (freeBytes < 64 * MiB) return fail(check, `${text}: events will soon be answered 503`, todo);
  return freeBytes < 512 * MiB ? warn(check, text, todo) : ok(check, text);
}

export function checkSpace(path: string, usedBytes: number): Finding {
  const { bavail, bsize } = statfsSync(dirname(resolve(path)));
  return judgeSpace(bavail * bsize, usedBytes);
}
