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
  return [() => openForWriting(path, "a test", "an-instance"), () => openForReading(path)].map(
    (open) => {
      try {
        open().close();
        return null;
      } catch (error) {
        expect(error).toBeInstanceOf(StoreRefused);
        return (error as Error).message;
      }
    },
  );
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

test("an unchanged file opens again", () => {
  openForWriting(path, "a test", "an-instance").close();
  expect(refusals()).toEqual([null, null]);
});

/** Another schema than this version's. */
function withSchema(by: 1 | -1): string {
  const db = openForWriting(path, "a test", "an-instance");
  const known = db.pragma("user_version", { simple: true }) as number;
  db.pragma(`user_version = ${known + by}`);
  db.close();
  return by > 0
    ? `was written by a newer wamid-relay (schema ${known + 1}, this version knows ${known}); upgrade, or use another file`
    : `was written by an older wamid-relay (schema ${known - 1}, this version needs ${known}); move it away or give storage.path another file`;
}

function former(id: number, version: number, name: string): string {
  change(
    `CREATE TABLE events (seq INTEGER PRIMARY KEY); PRAGMA application_id = ${id}; PRAGMA user_version = ${version}`,
  );
  return `is a store of wamid-relay ${name}; move it away or give storage.path another file, and register open messages again`;
}

const refused: readonly [what: string, make: () => string][] = [
  ["a newer schema", () => withSchema(1)],
  ["an older schema", () => withSchema(-1)],
  ["0.x", () => former(0x77616d64, 9, "0.x, which 1.x cannot read")],
  [
    "1.x before its release",
    () => former(0x77616d31, 1, "1.x before its release, which this version cannot read"),
  ],
  [
    "another program",
    () => {
      change("CREATE TABLE notes (text TEXT)");
      return "is a SQLite database of another program; give storage.path another file";
    },
  ],
  [
    "no database",
    () => {
      writeFileSync(path, "id,name\n".repeat(1_000));
      return "is not a SQLite database; move it away or give storage.path another file (SQLITE_NOTADB)";
    },
  ],
];

test.each(refused)("refuses a file of %s, and leaves it as it is", (_, make) => {
  const refusal = `${path} ${make()}`;
  const before = readFileSync(path);
  expect(refusals()).toEqual([refusal, refusal]);
  expect(readFileSync(path)).toEqual(before);
});

test("an empty file becomes a store, and is none until a relay opens it", () => {
  writeFileSync(path, "");
  expect(() => openForReading(path)).toThrow("is empty");
  expect(refusals()).toEqual([null, null]);
});
