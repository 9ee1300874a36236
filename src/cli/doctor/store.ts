import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import type { Settings } from "../../config/schema.ts";
import { type DatabaseFacts, databaseRisks } from "../../model/database.ts";
import { StoreMissing, StoreRefused } from "../../store/port.ts";
import type { Presence } from "../../store/postgres/server.ts";
import { schemaVersion } from "../../store/schema/ddl.ts";
import type { PostgresStorage } from "../../store/settings.ts";
import { isLocked } from "../../store/sqlite/file.ts";
import { openReader, type StoreReader } from "../../store/sqlite/reader.ts";
import { bytesText } from "../output.ts";
import { type Finding, fail, ok, skip, warn } from "./finding.ts";
import { assessRisk } from "./report.ts";

/** The store of the settings file, and the processes that use it, as the store names them. */
export interface OwnStore {
  readonly storage: Settings["storage"];
  /** A process has the file open for writing. Always false for a server. */
  readonly isHeld: boolean;
  /** Null: unknown. */
  readonly users: readonly { readonly id: string; readonly text: string }[] | null;
}

export interface StoreFound extends OwnStore {
  readonly findings: readonly Finding[];
  readonly isReadable: boolean;
}

/** `deep`: has SQLite read the whole file. */
export function examineStore(storage: Settings["storage"], deep: boolean): Promise<StoreFound> {
  return storage.driver === "sqlite" ? examineFile(storage.path, deep) : examineDatabase(storage);
}

async function examineFile(path: string, deep: boolean): Promise<StoreFound> {
  const storage = { driver: "sqlite", path } as const;
  const findings = checkStoreFiles(path, process.getuid?.());
  const unread = { storage, findings, isReadable: false, ...checkHolder(path, null).held };
  if (!existsSync(path)) return unread;
  let reader: StoreReader;
  try {
    reader = openReader(path);
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    findings.push({ check: "store", level: "fail", message: error.message });
    return unread;
  }
  findings.push(ok("schema", `version ${schemaVersion}`));
  try {
    const { held, finding } = checkHolder(path, reader);
    findings.push(finding, checkSpace(path, reader.file.usedBytes()), checkIntegrity(reader, deep));
    return { ...unread, ...held, isReadable: true };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    if (code?.startsWith("SQLITE_") !== true) throw error;
    findings.push(fail("integrity", `the store cannot be read: ${message} (${code})`, "restore a copy, or use sqlite3's .recover"));
    return unread;
  } finally {
    await reader.close();
  }
}

/** The process that holds the file, which the reader names. */
function checkHolder(path: string, reader: StoreReader | null): { readonly held: Omit<OwnStore, "storage">; readonly finding: Finding } {
  const isHeld = isLocked(path);
  if (isHeld === null) {
    const finding = warn("holder", `${path}.lock cannot be read`, "run doctor as the user of the relay");
    return { held: { isHeld: false, users: null }, finding };
  }
  const last = reader?.file.holder() ?? null;
  const id = reader?.file.instance() ?? null;
  return {
    held: { isHeld, users: !isHeld ? [] : id === null ? null : [{ id, text: last ?? "a process" }] },
    finding: ok("holder", isHeld ? `held by ${last ?? "a relay"}` : `held by nobody${last === null ? "" : `; last by ${last}`}`),
  };
}

function checkIntegrity(reader: StoreReader, deep: boolean): Finding {
  if (!deep) return skip("integrity", "--deep reads the whole file");
  const damage = reader.file.findDamage();
  if (damage === null) return ok("integrity", "the whole file is in order");
  return fail("integrity", `the file is damaged: ${damage}`, "stop the relay, and restore a copy or use sqlite3's .recover");
}

/** Above this size, the WAL is not being checkpointed. */
const largeWalBytes = 256 * 1024 * 1024;

/** Permissions and owners of the store's files, and whether its folder takes new ones. */
function checkStoreFiles(path: string, user: number | undefined): Finding[] {
  const folder = dirname(resolve(path));
  if (!existsSync(path)) {
    let nearest = folder;
    while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
    if (mayWrite(nearest)) return [ok("store", `there is none at ${path} yet; "wamid-relay serve" makes it`)];
    const message = `${path} does not exist and cannot be made: ${nearest} is not writable`;
    return [fail("store", message, "create the folder for the relay's user")];
  }
  const files = [path, `${path}-wal`, `${path}-shm`, `${path}.lock`].flatMap((file) => {
    const stats = statSync(file, { throwIfNoEntry: false });
    return stats === undefined ? [] : [{ file, ...stats }];
  });
  const names = (some: typeof files) => some.map(({ file }) => file);
  const owner = files[0]?.uid;
  // The lock file is empty; all others hold personal data.
  const open = names(files.filter(({ file, mode }) => (mode & 0o077) !== 0 && !file.endsWith(".lock")));
  const strangers = names(files.filter(({ uid }) => uid !== owner));
  const walBytes = files.find(({ file }) => file.endsWith("-wal"))?.size ?? 0;
  return [
    open.length === 0
      ? ok("store permissions", "only its user may read it")
      : warn(
          "store permissions",
          `others than its user may read ${open.join(", ")}: people's phone numbers are in it`,
          `chmod 600 ${open.join(" ")}`,
        ),
    strangers.length > 0
      ? fail(
          "store owner",
          `${path} belongs to user ${owner}, but ${strangers.join(", ")} to another: the relay cannot use both`,
          `chown ${owner} ${strangers.join(" ")}`,
        )
      : user === undefined || user === 0 || user === owner
        ? ok("store owner", `user ${owner}`)
        : warn("store owner", `the store belongs to user ${owner}, and this is user ${user}`, "run doctor as the user of the relay"),
    ...(mayWrite(folder)
      ? []
      : [fail("store folder", `${folder} is not writable: SQLite keeps files beside the store`, "make it writable for the relay's user")]),
    walBytes < largeWalBytes
      ? ok("write-ahead log", bytesText(walBytes))
      : warn(
          "write-ahead log",
          `${path}-wal has grown to ${bytesText(walBytes)}: something reads the store without end`,
          "end long-running readers (backups, sqlite3 shells) of the file",
        ),
  ];
}

function mayWrite(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

function checkSpace(path: string, usedBytes: number): Finding {
  const { bavail, bsize } = statfsSync(dirname(resolve(path)));
  return assessSpace(bavail * bsize, usedBytes);
}

const MiB = 1024 ** 2;

/** Free disk space beside the store. */
export function assessSpace(freeBytes: number, usedBytes: number): Finding {
  const check = "disk space";
  const text = `${bytesText(freeBytes)} free, the store has ${bytesText(usedBytes)}`;
  const todo = "make room, or keep events for less time (retention)";
  if (freeBytes < 64 * MiB) return fail(check, `${text}: events will soon be answered 503`, todo);
  return freeBytes < 512 * MiB ? warn(check, text, todo) : ok(check, text);
}

/** Many relays share a server: one that runs may be on another machine. */
async function examineDatabase(storage: PostgresStorage): Promise<StoreFound> {
  const unread = { storage, isReadable: false, isHeld: false, users: null };
  const { openPostgresForReading, readServer } = await import("../../app/open-postgres.ts");
  try {
    const store = await openPostgresForReading(storage);
    try {
      const processes = await store.processes();
      const findings = [assessServer(await store.database()), assessProcesses(processes), ...assessVersions(processes)];
      const users = processes.map(({ id, pid, host }) => ({ id, text: `process ${pid} on ${host}` }));
      return { ...unread, findings, isReadable: true, users };
    } finally {
      await store.close();
    }
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    // A newer version, an unfinished migration, or an empty database.
    if (!(error instanceof StoreMissing)) return { ...unread, findings: [{ check: "store", level: "fail", message: error.message }] };
    const facts = await readServer(storage);
    return { ...unread, findings: [assessServer(facts), ...databaseRisks(facts).map(assessRisk), ok("store", error.message)] };
  }
}

function assessServer({ version, isReplica, roundTripMs, bytes, connectionsLeft, standbys, seesSessions }: DatabaseFacts): Finding {
  const check = "postgres";
  if (isReplica) return fail(check, "it is a read-only standby: no event can be stored", "give storage.url the address of the primary");
  const text = `version ${version}, answers in ${roundTripMs} ms, ${bytesText(bytes)} stored, ${connectionsLeft} connections left, ${standbys} standbys`;
  return ok(check, seesSessions ? text : `${text}; its user may not see long transactions of others, as pg_read_all_stats lets it`);
}

/** Without a worker, accepted events wait. */
function assessProcesses(presences: readonly Presence[]): Finding {
  const check = "processes";
  const count = (role: Presence["role"]): number => presences.filter((presence) => presence.role === role).length;
  const receiving = count("receive") + count("both");
  const working = count("work") + count("both");
  if (receiving + working === 0) return warn(check, "none is connected", "wamid-relay serve");
  const text = `${receiving} receive, ${working} work`;
  if (working === 0) return warn(check, `${text}: events are accepted, and nothing is delivered`, "wamid-relay serve --role work");
  if (receiving === 0) return warn(check, `${text}: no event can come in`, "wamid-relay serve --role receive");
  return ok(check, text);
}

/** A finding when processes of different versions share a store. */
export function assessVersions(presences: readonly Presence[]): Finding[] {
  const versions = Map.groupBy(
    presences.filter(({ role }) => role !== "command"),
    ({ version }) => version,
  );
  if (versions.size < 2) return [];
  const text = [...versions]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([version, processes]) => {
      return `${version} (${processes.map(({ pid, host }) => `process ${pid} on ${host}`).join(", ")})`;
    });
  return [warn("processes", `run different versions: ${text.join("; ")}`, "update and restart the older ones")];
}
