import { randomBytes } from "node:crypto";
import { constants, existsSync, realpathSync, statSync } from "node:fs";
import {
  chmod,
  chown,
  copyFile,
  link,
  open,
  readdir,
  rename,
  rm,
  stat,
  statfs,
} from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { getSystemErrorMessage } from "node:util";
import type { AuditProgress, AuditReport } from "../../model/audit.ts";
import { StoreRefused, StoreUnavailable } from "../port.ts";
import { emptyLog, lockFile, sizeOf } from "./file.ts";
import { createInspecting, type FileInspecting } from "./inspecting.ts";

export interface BackupOrder {
  readonly path: string;
  readonly file: string;
  /** A restore keeps the existing target under another name. */
  readonly replace: boolean;
  readonly now: () => number;
  readonly progress: (step: BackupStep, at: AuditProgress) => void;
  readonly signal: AbortSignal;
}

type BackupStep = "copying" | "checking" | "auditing";

export const ofPartial = /^(.*)\.[0-9a-f]{8}\.partial(?:-journal|-wal|-shm)?$/;
/** Older ones are left over from a process that was killed. */
export const partialLastsMs = 86_400_000;
const reserveBytes = 64 * 1024 * 1024;

/**
 * A relay may write the store meanwhile. Throws `StoreRefused` when it cannot copy, and
 * `StoreUnavailable` when reading fails; then no file has the name. The backup has everything that
 * was acknowledged before `at`.
 */
export const backUp = refusing(async ({ path, file, replace, progress, signal, now }) => {
  const startedAt = performance.now();
  const target = resolve(file);
  await checkTarget(target, path, replace);
  await checkRoom(dirname(target), sizeOf(path));
  return withPartial(target, now() - partialLastsMs, async (partial) => {
    await createEmpty(partial);
    const { at, bytes, audit } = await inspect(path, signal, async ({ copy, checking }) => ({
      ...(await copy(partial, (each) => progress("copying", each))),
      audit: await verify(partial, checking, {
        file: path,
        remedy: "restore a backup of it",
        now: now(),
        progress,
      }),
    }));
    await giveName(partial, target, replace);
    return { file, bytes, at, audit, tookMs: Math.round(performance.now() - startedAt) };
  });
});

/**
 * The existing store is kept under a dated name. Throws `StoreRefused` when it cannot, and while a
 * relay has the store; then nothing has changed. `kept`: the new name of the store that was there;
 * null: there was none.
 */
export const restore = refusing(async ({ path, file, replace, progress, signal, now }) => {
  const startedAt = performance.now();
  const backup = status(file);
  if (backup === undefined) throw new StoreRefused(`there is no backup at ${file}`);
  if (!backup.isFile()) throw new StoreRefused(`${file} is not a file`);
  if (sizeOf(`${file}-wal`) > 0) {
    throw new StoreRefused(
      `${file} has a -wal file beside it: it is a store in use, or was copied without wamid-relay backup. Move it to storage.path with its -wal to use it`,
    );
  }
  const lock = lockFile(path);
  try {
    // A link to the file stays.
    const target = existsSync(path) ? realpathSync(path) : resolve(path);
    if (target === realpathSync(file))
      throw new StoreRefused(`${file} is the store of the settings itself`);
    const old = status(target);
    if (old !== undefined && !replace) {
      throw new StoreRefused(
        `${path} exists; with --force it is kept under another name, and the backup takes its place`,
      );
    }
    await checkRoom(dirname(target), backup.size);
    // The lock shows that no other restore runs.
    return await withPartial(target, Number.POSITIVE_INFINITY, async (partial) => {
      await copyFile(file, partial, constants.COPYFILE_EXCL);
      // A backup on read-only media may be read-only itself.
      await chmod(partial, 0o600);
      await sync(partial);
      const audit = await inspect(partial, signal, ({ checking }) =>
        verify(partial, checking, { file, remedy: "use another backup", now: now(), progress }),
      );
      signal.throwIfAborted();
      const owner = old ?? (await stat(dirname(target)));
      for (const each of process.getuid?.() === 0 ? [partial, `${target}.lock`] : [])
        if (existsSync(each)) await chown(each, owner.uid, owner.gid);
      const kept = await keepOld(target, now());
      await rename(partial, target);
      await sync(dirname(target));
      return {
        path,
        bytes: backup.size,
        kept,
        audit,
        tookMs: Math.round(performance.now() - startedAt),
      };
    });
  } finally {
    lock.release();
  }
});

function refusing<Report>(run: (order: BackupOrder) => Promise<Report>) {
  return async (order: BackupOrder): Promise<Report> => {
    try {
      return await run(order);
    } catch (error) {
      throw inWords(error, order.file);
    }
  };
}

/** A fault of the file system without Node's code and call; any other error as it is. */
export function inWords(error: unknown, file: string): Error {
  const { errno, path = file } = error as NodeJS.ErrnoException;
  return typeof errno === "number"
    ? new StoreRefused(`${path.replace(ofPartial, "$1")}: ${getSystemErrorMessage(errno)}`, {
        cause: error,
      })
    : (error as Error);
}

async function checkTarget(target: string, path: string, replace: boolean): Promise<void> {
  if (!existsSync(dirname(target)))
    throw new StoreRefused(`the folder ${dirname(target)} does not exist`);
  const store = existsSync(path) ? realpathSync(path) : resolve(path);
  const real = join(realpathSync(dirname(target)), basename(target));
  const own = ["", "-wal", "-shm", ".lock"].map((ending) => store + ending);
  if (own.includes(real) || (existsSync(real) && realpathSync(real) === store)) {
    throw new StoreRefused(`${target} belongs to the store itself; give another file`);
  }
  const found = status(target);
  if (found?.isDirectory() === true)
    throw new StoreRefused(`${target} is a folder; name a file in it`);
  if (found !== undefined && !replace)
    throw new StoreRefused(`${target} exists; with --force it is replaced`);
}

async function checkRoom(folder: string, bytes: number): Promise<void> {
  const { bavail, bsize } = await statfs(folder);
  const [needed, free] = [bytes + reserveBytes, bavail * bsize];
  if (free >= needed) return;
  const mib = (value: number) => `${Math.ceil(value / 1024 ** 2)} MiB`;
  throw new StoreRefused(`${folder} has ${mib(free)} free, and this needs ${mib(needed)}`);
}

/**
 * `use` gets an unused name beside the target. Unfinished files of killed processes that were last
 * written before `leftBefore` are removed.
 */
async function withPartial<T>(
  target: string,
  leftBefore: number,
  use: (partial: string) => Promise<T>,
): Promise<T> {
  for (const name of await readdir(dirname(target))) {
    const file = join(dirname(target), name);
    if (ofPartial.exec(name)?.[1] !== basename(target)) continue;
    const found = status(file);
    if (found !== undefined && found.mtimeMs < leftBefore) await rm(file, { force: true });
  }
  const partial = `${target}.${randomBytes(4).toString("hex")}.partial`;
  try {
    return await use(partial);
  } finally {
    for (const ending of ["", "-wal", "-shm", "-journal"])
      await rm(partial + ending, { force: true });
  }
}

async function createEmpty(path: string): Promise<void> {
  // Bodies contain phone numbers.
  const file = await open(path, "wx", 0o600);
  await file.close();
}

async function inspect<T>(
  path: string,
  signal: AbortSignal,
  use: (inspecting: FileInspecting) => Promise<T>,
) {
  signal.throwIfAborted();
  const inspecting = createInspecting(path);
  const stop = () => void inspecting.close();
  signal.addEventListener("abort", stop, { once: true });
  try {
    return await use(inspecting);
  } finally {
    signal.removeEventListener("abort", stop);
    await inspecting.close();
  }
}

interface VerifyOptions extends Pick<BackupOrder, "progress"> {
  readonly file: string;
  readonly remedy: string;
  readonly now: number;
}

/** Throws `StoreRefused` when the copy is damaged. */
async function verify(
  partial: string,
  checking: FileInspecting["checking"],
  { file, remedy, now, progress }: VerifyOptions,
): Promise<AuditReport> {
  const { findDamage, audit } = checking(partial);
  try {
    progress("checking", { checked: 0, of: 0 });
    const damage = await findDamage();
    if (damage !== null) throw new StoreRefused(`${file} is damaged (${damage}); ${remedy}`);
    return await audit({ now, isRunning: false }, (each) => progress("auditing", each));
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error;
    const code = /\((SQLITE_\w+)\)/.exec(error.message)?.[1];
    const why = error.message.replace("the store cannot be read: ", "").replaceAll(partial, file);
    throw new StoreRefused(
      code === undefined
        ? why
        : `${file} is damaged, or not a store of wamid-relay (${code}); ${remedy}`,
      {
        cause: error,
      },
    );
  }
}

async function giveName(partial: string, target: string, replace: boolean): Promise<void> {
  if (replace) await rename(partial, target);
  else {
    try {
      // A rename would replace what another process has made meanwhile.
      await link(partial, target);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "EEXIST")
        throw new StoreRefused(`${target} exists; with --force it is replaced`);
      // Some file systems have no hard links.
      await rename(partial, target);
    }
  }
  await sync(dirname(target));
}

/**
 * At every moment the old store is complete under one of its names. Its -wal and -shm would spoil
 * the new one.
 */
async function keepOld(target: string, now: number): Promise<string | null> {
  const kept = `${target}.before-restore-${timeInName(now)}`;
  const isThere = existsSync(target);
  if (isThere) emptyLog(target, "TRUNCATE", 5_000);
  for (const ending of ["", "-wal"]) {
    if (!existsSync(target + ending)) continue;
    await link(target + ending, kept + ending).catch(async () =>
      copyFile(target + ending, kept + ending, constants.COPYFILE_EXCL),
    );
  }
  await sync(dirname(target));
  for (const ending of ["-wal", "-shm"]) await rm(target + ending, { force: true });
  return isThere ? kept : null;
}

export function timeInName(at: number): string {
  return `${new Date(at).toISOString().slice(0, 19).replaceAll(/[-:]/g, "")}Z`;
}

async function sync(path: string): Promise<void> {
  const isFolder = (await stat(path)).isDirectory();
  // Windows cannot sync a folder.
  if (isFolder && process.platform === "win32") return;
  const handle = await open(path, isFolder ? "r" : "r+");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

const status = (path: string) => statSync(path, { throwIfNoEntry: false });
