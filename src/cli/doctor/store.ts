import { accessSync, constants, existsSync, statfsSync, statSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { createCleanup } from "../../app/engine.ts";
import type { Settings } from "../../config/schema.ts";
import { type DatabaseFacts, databaseRisks } from "../../model/database.ts";
import { faultCode, StoreMissing, StoreRefused } from "../../store/port.ts";
import type { Presence } from "../../store/postgres/server.ts";
import { schemaVersion } from "../../store/schema/ddl.ts";
import type { PostgresStorage } from "../../store/settings.ts";
import { hiddenText, isHidden } from "../../store/sqlite/faults.ts";
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

interface StoreFound extends OwnStore {
  readonly findings: readonly Finding[];
  readonly isReadable: boolean;
}

/** `deep`: has SQLite read the whole file. */
export function examineStore(storage: Settings["storage"], deep: boolean): Promise<StoreFound> {
  return storage.driver === "sqlite" ? examineFile(storage.path, deep) : examineDatabase(storage);
}

async function examineFile(path: string, deep: boolean): Promise<StoreFound> {
  const findings = [...checkFiles(path)];
  const found = {
    storage: { driver: "sqlite", path } as const,
    findings,
    isReadable: false,
    ...holderOf(path, null),
  };
  if (!existsSync(path)) return found;
  await using parts = createCleanup();
  try {
    const reader = parts.adopt(openReader(path), (one) => one.close());
    findings.push(ok("schema", `version ${schemaVersion}`));
    const last = reader.file.key("holder");
    const by = last === null ? "" : ` by ${last}`;
    const { bavail, bsize } = statfsSync(dirname(resolve(path)));
    const held = holderOf(path, reader);
    findings.push(
      held.users === null && !held.isHeld
        ? warn("holder", `${path}.lock cannot be read`, "run doctor as the user of the relay")
        : ok(
            "holder",
            held.isHeld ? `held${by}` : `held by nobody${last === null ? "" : `; last${by}`}`,
          ),
      assessSpace(bavail * bsize, reader.file.usedBytes()),
      checkIntegrity(reader, deep),
    );
    return { ...found, ...held, isReadable: true };
  } catch (error) {
    const { code, message } = error as { code?: string; message: string };
    const remedy = "restore a copy, or use sqlite3's .recover";
    if (error instanceof StoreRefused) findings.push({ check: "store", level: "fail", message });
    else if (code?.startsWith("SQLITE_"))
      findings.push(fail("integrity", `the store cannot be read: ${message} (${code})`, remedy));
    else throw error;
    return found;
  }
}

function holderOf(path: string, reader: StoreReader | null): Pick<OwnStore, "isHeld" | "users"> {
  const isHeld = isLocked(path);
  if (isHeld !== true) return { isHeld: false, users: isHeld === null ? null : [] };
  const id = reader?.file.key("instance") ?? null;
  return {
    isHeld,
    users: id === null ? null : [{ id, text: reader?.file.key("holder") ?? "a process" }],
  };
}

function checkIntegrity(reader: StoreReader, deep: boolean): Finding {
  if (!deep) return skip("integrity", "--deep reads the whole file");
  const damage = reader.file.findDamage();
  if (damage === null) return ok("integrity", "the whole file is in order");
  return fail(
    "integrity",
    `the file is damaged: ${damage}`,
    "stop the relay, and restore a copy or use sqlite3's .recover",
  );
}

const MiB = 1024 ** 2;
/** Above this size, the WAL is not being checkpointed. */
const largeWalBytes = 256 * MiB;

function* checkFiles(path: string): Generator<Finding> {
  const folder = dirname(resolve(path));
  if (isHidden(path)) {
    yield fail("store", hiddenText(path), "run doctor as the user of the relay");
    return;
  }
  if (!existsSync(path)) {
    let nearest = folder;
    while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
    const message = `${path} does not exist and cannot be made: ${nearest} is not writable`;
    yield mayWrite(nearest)
      ? ok("store", `there is none at ${path} yet; "wamid-relay serve" makes it`)
      : fail("store", message, "create the folder for the relay's user");
    return;
  }
  const files = [path, `${path}-wal`, `${path}-shm`, `${path}.lock`].flatMap((file) => {
    const stats = statSync(file, { throwIfNoEntry: false });
    return stats === undefined ? [] : [{ file, ...stats }];
  });
  const names = (some: typeof files) => some.map(({ file }) => file);
  // The lock file is empty; all others hold personal data.
  const open = names(
    files.filter(({ file, mode }) => (mode & 0o077) !== 0 && !file.endsWith(".lock")),
  );
  if (open.length === 0) yield ok("store permissions", "only its user may read it");
  else {
    const message = `others than its user may read ${open.join(", ")}: people's phone numbers are in it`;
    yield warn("store permissions", message, `chmod 600 ${open.join(" ")}`);
  }
  const owner = files[0]?.uid;
  const user = process.getuid?.();
  const others = names(files.filter(({ uid }) => uid !== owner));
  if (others.length > 0) {
    const message = `${path} belongs to user ${owner}, but ${others.join(", ")} to another: the relay cannot use both`;
    yield fail("store owner", message, `chown ${owner} ${others.join(" ")}`);
  } else if (user === undefined || user === 0 || user === owner)
    yield ok("store owner", `user ${owner}`);
  else
    yield warn(
      "store owner",
      `the store belongs to user ${owner}, and this is user ${user}`,
      "run doctor as the user of the relay",
    );
  if (!mayWrite(folder))
    yield fail(
      "store folder",
      `${folder} is not writable: SQLite keeps files beside the store`,
      "make it writable for the relay's user",
    );
  const walBytes = files.find(({ file }) => file.endsWith("-wal"))?.size ?? 0;
  if (walBytes < largeWalBytes) yield ok("write-ahead log", bytesText(walBytes));
  else {
    const message = `${path}-wal has grown to ${bytesText(walBytes)}: something reads the store without end`;
    yield warn(
      "write-ahead log",
      message,
      "end long-running readers (backups, sqlite3 shells) of the file",
    );
  }
}

function mayWrite(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

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
  await using parts = createCleanup();
  try {
    const store = parts.adopt(await openPostgresForReading(storage), (one) => one.close());
    const processes = await store.processes();
    const findings = [
      assessServer(await store.database()),
      assessProcesses(processes),
      ...assessVersions(processes),
    ];
    const users = processes.map((each) => ({ id: each.id, text: processText(each) }));
    return { ...unread, findings, isReadable: true, users };
  } catch (error) {
    if (!(error instanceof StoreRefused)) throw error;
    const { message } = error;
    if (error instanceof StoreMissing) {
      const facts = await readServer(storage);
      const risks = databaseRisks(facts).map(assessRisk);
      return { ...unread, findings: [assessServer(facts), ...risks, ok("store", message)] };
    }
    const todo = remedyOf(error);
    const finding = { check: "store", level: "fail", message } as const;
    return { ...unread, findings: [todo === null ? finding : { ...finding, todo }] };
  }
}

/**
 * Null: the message has it, as that of a newer version, an unfinished migration, or a missing
 * permission.
 */
function remedyOf(error: StoreRefused): string | null {
  const cause = (error.cause as Error | undefined)?.cause as Error | undefined;
  const code = faultCode(cause?.cause ?? cause);
  if (cause === undefined || ["42501", "42P01"].includes(code)) return null;
  if (code === "53300")
    return "raise max_connections, or the limit of the user or database: a process takes up to ten";
  return "check storage.url, that PostgreSQL runs and listens there, its pg_hba.conf, and firewalls on the way";
}

function assessServer({
  version,
  isReplica,
  isReadOnly,
  roundTripMs,
  bytes,
  connectionsLeft,
  standbys,
  seesSessions,
}: DatabaseFacts): Finding {
  const check = "postgres";
  if (isReplica)
    return fail(
      check,
      "it is a read-only standby: no event can be stored",
      "give storage.url the address of the primary",
    );
  if (isReadOnly) {
    const message =
      "it refuses writes: default_transaction_read_only is on for the server, this database or this user";
    return fail(
      check,
      message,
      "find out who set it, such as a provider whose disk is full, and reset it",
    );
  }
  const text = `version ${version}, answers in ${roundTripMs} ms, ${bytesText(bytes)} stored, ${connectionsLeft} connections left, ${standbys} standbys`;
  return ok(
    check,
    seesSessions
      ? text
      : `${text}; its user may not see long transactions of others, as pg_read_all_stats lets it`,
  );
}

function assessProcesses(presences: readonly Presence[]): Finding {
  const check = "processes";
  const count = (role: "receive" | "work") =>
    presences.filter((each) => each.role === role || each.role === "both").length;
  const [receiving, working] = [count("receive"), count("work")];
  if (receiving + working === 0) return warn(check, "none is connected", "wamid-relay serve");
  const text = `${receiving} receive, ${working} work`;
  if (working === 0)
    return warn(
      check,
      `${text}: events are accepted, and nothing is delivered`,
      "wamid-relay serve --role work",
    );
  if (receiving === 0)
    return warn(check, `${text}: no event can come in`, "wamid-relay serve --role receive");
  return ok(check, text);
}

const processText = ({ pid, host }: Pick<Presence, "pid" | "host">) => `process ${pid} on ${host}`;

export function assessVersions(presences: readonly Presence[]): Finding[] {
  const serving = presences
    .filter(({ role }) => role !== "command")
    .toSorted((a, b) => a.version.localeCompare(b.version));
  const versions = Map.groupBy(serving, ({ version }) => version);
  if (versions.size < 2) return [];
  const text = [...versions]
    .map(([version, processes]) => `${version} (${processes.map(processText).join(", ")})`)
    .join("; ");
  return [
    warn("processes", `run different versions: ${text}`, "update and restart the older ones"),
  ];
}
