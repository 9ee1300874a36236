import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { beforeEach, expect, test } from "vitest";
import { StoreRefused } from "../../../src/store/port.ts";
import { openForReading, openForWriting } from "../../../src/store/sqlite/file.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = tempFolder();
  path = join(folder, "relay.db");
});

/** The errors of opening the file for writing and for reading. */
function refusals(): (string | null)[] {
  return [() => openForWriting(path, "a test", "an-instance"), () => openForReading(path)].map((open) => {
    try {
      open().close();
      return null;
    } catch (error) {
      expect(error).toBeInstanceOf(StoreRefused);
      return (error as Error).message;
    }
  });
}

function change(sql: string): void {
  const db = new Database(path);
  db.exec(sql);
  db.close();
}

test("waits for the disk at each commit", () => {
  const db = openForWriting(path, "a test", "an-instance");
  expect(db.pragma("journal_mode", { simple: true })).toBe("wal");
  // 2 is FULL. The default in WAL mode, NORMAL, loses the last commits when the power fails.
  expect(db.pragma("synchronous", { simple: true })).toBe(2);
  db.close();
});

test("refuses a file with a newer schema and names both versions", () => {
  openForWriting(path, "a test", "an-instance").close();
  expect(refusals()).toEqual([null, null]);
  const db = new Database(path);
  const known = db.pragma("user_version", { simple: true }) as number;
  db.pragma(`user_version = ${known + 1}`);
  db.close();
  const refusal = `${path} was written by a newer wamid-relay (schema ${known + 1}, this version knows ${known}); upgrade, or use another file`;
  expect(refusals()).toEqual([refusal, refusal]);
});

test("refuses a file with an older schema, and leaves it as it is", () => {
  openForWriting(path, "a test", "an-instance").close();
  const db = new Database(path);
  const needed = db.pragma("user_version", { simple: true }) as number;
  db.pragma(`user_version = ${needed - 1}`);
  db.close();
  const before = readFileSync(path);
  const refusal = `${path} was written by an older wamid-relay (schema ${needed - 1}, this version needs ${needed}); move it away or give storage.path another file`;
  expect(refusals()).toEqual([refusal, refusal]);
  expect(readFileSync(path)).toEqual(before);
});

const formerStores = [
  ["0.x, which 1.x cannot read", 0x77616d64, 9],
  ["1.x before its release, which this version cannot read", 0x77616d31, 1],
] as const;

test.each(formerStores)("refuses a store of %s, and leaves it as it is", (former, id, version) => {
  change(`CREATE TABLE events (seq INTEGER PRIMARY KEY); PRAGMA application_id = ${id}; PRAGMA user_version = ${version}`);
  const before = readFileSync(path);
  const refusal = `${path} is a store of wamid-relay ${former}; move it away or give storage.path another file, and register open messages again`;
  expect(refusals()).toEqual([refusal, refusal]);
  expect(readFileSync(path)).toEqual(before);
});

test("an empty file becomes a store, and is none until a relay opens it", () => {
  writeFileSync(path, "");
  expect(() => openForReading(path)).toThrow("is empty");
  expect(refusals()).toEqual([null, null]);
});

test("refuses the database of another program and leaves it as it is", () => {
  change("CREATE TABLE notes (text TEXT)");
  const before = readFileSync(path);
  const refusal = `${path} is a SQLite database of another program; give storage.path another file`;
  expect(refusals()).toEqual([refusal, refusal]);
  expect(readFileSync(path)).toEqual(before);
});

test("refuses a file that is not a SQLite database and leaves it as it is", () => {
  writeFileSync(path, "id,name\n".repeat(1_000));
  const refusal = `${path} is not a SQLite database; move it away or give storage.path another file (SQLITE_NOTADB)`;
  expect(refusals()).toEqual([refusal, refusal]);
  expect(readFileSync(path, "utf8")).toBe("id,name\n".repeat(1_000));
});
