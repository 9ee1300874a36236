import type { Journal } from "../world/table.ts";
import { openDatabase } from "./open-database.ts";

/** The sandbox's memory on disk: every record as JSON, written once per turn of the event loop. */
export interface StateFile {
  /** Takes note of changes; a record changed several times within a turn is written once. */
  readonly journal: Journal;
  /** Every record of the file, in the order in which they were first written. */
  records(): IterableIterator<{ readonly kind: string; readonly record: { readonly id: string } }>;
  /** Resolves once everything noted so far is in the file; rejects when it could not be written. */
  written(): Promise<void>;
  /** Writes what is left, and lets go of the file. */
  close(): void;
}

interface Change {
  readonly kind: string;
  readonly id: string;
  readonly record: object | null;
}

/** Throws SandboxRefused, see {@link openDatabase}. */
export async function openStateFile(path: string): Promise<StateFile> {
  const database = await openDatabase(path);
  const read = database.prepare<[], { kind: string; json: string }>("SELECT kind, json FROM record ORDER BY rowid");
  const upsert = database.prepare("INSERT INTO record VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET json = excluded.json");
  const remove = database.prepare("DELETE FROM record WHERE kind = ? AND id = ?");
  let noted = new Map<string, Change>();
  let turn: Promise<void> | null = null;

  const writeAll = database.transaction((changes: Iterable<Change>) => {
    for (const { kind, id, record } of changes) {
      if (record === null) remove.run(kind, id);
      else upsert.run(kind, id, JSON.stringify(record));
    }
  });
  const write = (): void => {
    if (noted.size === 0) return;
    writeAll(noted.values());
    // Only now: what a full disk kept out is tried again with the next change.
    noted = new Map();
  };
  const atTurnsEnd = (): Promise<void> => {
    turn ??= new Promise((resolve, reject) => {
      setImmediate(() => {
        turn = null;
        try {
          if (database.open) write();
          resolve();
        } catch (error) {
          reject(error as Error);
        }
      });
    });
    // Only callers of `written` receive a failure.
    turn.catch(() => {});
    return turn;
  };
  return {
    journal: {
      changed(kind, id, record) {
        noted.set(`${kind}\0${id}`, { kind, id, record });
        atTurnsEnd();
      },
    },
    *records() {
      for (const { kind, json } of read.iterate()) yield { kind, record: JSON.parse(json) as { id: string } };
    },
    written: () => (noted.size === 0 ? Promise.resolve() : atTurnsEnd()),
    close() {
      if (!database.open) return;
      try {
        write();
      } finally {
        database.close();
      }
    },
  };
}
