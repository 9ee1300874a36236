import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { createGiveBack } from "../../../src/store/sqlite/file.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

/** A file of `pages` pages of rows, all but a few of them deleted again. */
function emptied(pages: number, autoVacuum: "INCREMENTAL" | "NONE") {
  const folder = tempFolder();
  const db = new Database(join(folder, "a.db"));
  onTestFinished(() => void db.close());
  db.pragma(`auto_vacuum = ${autoVacuum}`);
  db.pragma("journal_mode = WAL");
  db.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, body BLOB)");
  const insert = db.prepare("INSERT INTO t (body) VALUES (zeroblob(3500))");
  db.transaction(() => {
    for (let n = 0; n < pages; n += 1) insert.run();
  })();
  db.exec(`DELETE FROM t WHERE id < ${pages - 10}`);
  return { db, pages: () => db.pragma("page_count", { simple: true }) as number };
}

test("what is free goes back in small steps, but for a reserve; what is stored stays", () => {
  const { db, pages } = emptied(2_000, "INCREMENTAL");
  const before = pages();
  const giveBack = createGiveBack(db);
  expect(giveBack(100)).toBe(true);
  expect(before - pages()).toBeGreaterThanOrEqual(100);
  // With a page of SQLite's own map, maybe.
  expect(before - pages()).toBeLessThan(105);
  for (let steps = 0; giveBack(100); steps += 1) expect(steps).toBeLessThan(50);
  expect(pages()).toBeGreaterThan(1_000);
  expect(pages()).toBeLessThan(1_100);
  expect(db.prepare("SELECT count(*) FROM t").pluck().get()).toBe(11);
  expect(db.pragma("integrity_check", { simple: true })).toBe("ok");
});

test("a file that was made without is left as it is", () => {
  const { db, pages } = emptied(2_000, "NONE");
  const before = pages();
  expect(createGiveBack(db)(100)).toBe(false);
  expect(pages()).toBe(before);
});
