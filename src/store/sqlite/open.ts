import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import Database from "better-sqlite3";
import { refusalOfCopy } from "../copy.ts";
import { createCommands, createListeners, createStore } from "../create-store.ts";
import { type Rules, type StoreHooks, StoreLost, StoreRefused, StoreUnavailable } from "../port.ts";
import { events } from "../schema/tables.ts";
import type { Work } from "../sql/ops.ts";
import { createSqliteCommit } from "./commit.ts";
import { isDamage, isStorageFault, reasonOf, translateErrors, watchPlace } from "./faults.ts";
import { aCommand, createGiveBack, lockFile, openForWriting } from "./file.ts";
import { createBrowsing, createInspecting } from "./inspecting.ts";
import { createSqliteRunner } from "./runner.ts";

export type SqliteStore = ReturnType<typeof openSqliteStore>;

/**
 * One writing process, one transaction per turn of the event loop. Throws `StoreRefused` when it
 * cannot open the file; later, writes reject with `StoreUnavailable` while the file cannot be
 * written. `instance`: the id of this process. A command gives the file to a relay that starts.
 */
export function openSqliteStore(
  path: string,
  rules: Rules,
  hooks: StoreHooks,
  instance: string = randomUUID(),
  isCommand = false,
) {
  const { db, runner, lock } = openLocked(path, instance, isCommand);
  const checkPlace = watchPlace(path, db);
  const inspecting = createInspecting(path);
  const listeners = createListeners();
  let newest = 0;

  /** Nothing is written after SQLite reports damage: the next write may not detect it. */
  let damage: StoreLost | null = null;

  function refusal(): StoreUnavailable | null {
    const wrong = checkPlace();
    if (wrong === null && damage === null) return null;
    const refused = damage ?? new StoreLost(wrong ?? "");
    hooks.failed(refused);
    return refused;
  }

  function unavailable(error: unknown): unknown {
    if (!(error instanceof Database.SqliteError)) return error;
    const wrong = checkPlace();
    if (wrong === null && !isStorageFault(error)) return error;
    const why = reasonOf(error);
    const fallback =
      why === null
        ? `the store cannot be used now: ${error.message}`
        : `${path} ${why}: ${error.message}`;
    const Fault = wrong !== null || isDamage(error) ? StoreLost : StoreUnavailable;
    const fault = new Fault(wrong ?? fallback, { cause: error });
    if (isDamage(error)) damage ??= fault;
    hooks.failed(fault);
    return fault;
  }

  /** "migrate" may have marked the file as moved while this waited for its lock. */
  function* refuseMoved(): Work<void> {
    const refused = yield* refusalOfCopy();
    if (refused === null) return;
    const fault = new StoreLost(`${path} ${refused}`);
    hooks.failed(fault);
    throw fault;
  }

  const commit = createSqliteCommit(runner, {
    refusal,
    begin: refuseMoved,
    arriving: hooks.arriving ?? (() => false),
    committed(tookMs, count) {
      hooks.committed(tookMs, count);
      const last = runner.newest(events);
      if (last === null || last <= newest) return;
      newest = last;
      listeners.wakeStored();
    },
    rolledBack: (error) => void unavailable(error),
  });
  const commands = createCommands({ rules, writer: "", held: () => null });
  const written = createStore(
    { run: commit.run, read: runner.read },
    { commands, rules, giveBack: createGiveBack(db) },
  );

  return translateErrors(
    {
      ...written,
      look: runner.read,
      browse: createBrowsing(db, written.read, inspecting.page),
      inspecting,
      isShared: false,
      announce: listeners.offer,
      onDue: listeners.onDue,
      onStored: listeners.onStored,
      async resume(route: string): Promise<boolean> {
        const resumed = await written.resume(route);
        listeners.wake(route);
        return resumed;
      },
      isInPlace: () => refusal() === null,
      async close(): Promise<void> {
        await written.flush();
        await Promise.all([commit.idle(), inspecting.close()]);
        db.close();
        lock.release();
      },
    },
    unavailable,
  );
}

/** A step of a command, and a call of the service that hangs. */
const commandEndsMs = 30_000;

function openLocked(path: string, instance: string, isCommand: boolean) {
  const lock = lockFile(path, isCommand ? 0 : commandEndsMs);
  try {
    const holder = `${isCommand ? aCommand : ""}process ${process.pid} on ${hostname()}`;
    const db = openForWriting(path, holder, instance);
    const runner = createSqliteRunner(db);
    const refusal = runner.now(refusalOfCopy());
    if (refusal === null) return { db, runner, lock };
    db.close();
    throw new StoreRefused(`${path} ${refusal}`);
  } catch (error) {
    lock.release();
    throw error;
  }
}
