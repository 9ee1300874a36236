import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { StoreRefused } from "../../../src/store/port.ts";
import { openForReading, openForWriting } from "../../../src/store/sqlite/file.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "file-"));
  path = join(folder, "relay.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

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

const formerId = 0x77616d64;

test("refuses a store of 0.x, whatever its schema, and leaves it as it is", () => {
  for (const version of [1, 9]) {
    rmSync(path, { force: true });
    change(`CREATE TABLE events (seq INTEGER PRIMARY KEY); PRAGMA application_id = ${formerId}; PRAGMA user_version = ${version}`);
    const before = readFileSync(path);
    const refusal = `${path} is a store of wamid-relay 0.x, which 1.x cannot read; move it away or give storage.path another file, and register open messages again`;
    expect(refusals()).toEqual([refusal, refusal]);
    expect(readFileSync(path)).toEqual(before);
  }
});

test("adopts a 1.x store with the id of 0.x, which 0.x then refuses", () => {
  openForWriting(path, "a test", "an-instance").close();
  change(`PRAGMA application_id = ${formerId}`);
  openForReading(path).close();
  expect(refusals()).toEqual([null, null]);
  const db = new Database(path);
  expect(db.pragma("application_id", { simple: true })).not.toBe(formerId);
  expect(db.prepare("SELECT value FROM meta WHERE key = 'holder'").pluck().get()).toBe("a test");
  db.close();
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
