import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { newestVersion, openForReading } from "../../../src/store/sqlite/open.ts";
import { openSqliteStore } from "../../../src/store/sqlite/sqlite-store.ts";
import { rulesFor, start } from "../../contract/store-events.ts";
import { rowsOf } from "../../harness/store-rows.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "store-migrations-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const firstSchema = readFileSync(new URL("../../../src/store/sqlite/migrations/0001-main.sql", import.meta.url), "utf8");
const hooks = { committed: () => {}, failed: () => {} };
const columns = (path: string) =>
  rowsOf<{ name: string; type: string; notnull: number }>(
    path,
    "SELECT name, type, \"notnull\" FROM pragma_table_info('messages') ORDER BY name",
  );

/** A file as the first version wrote it, with one message registered and one seen. */
function schemaOne(path: string): void {
  const db = new Database(path);
  db.pragma("journal_mode = WAL");
  db.exec(firstSchema);
  db.pragma("application_id = 0x77616d64");
  db.pragma("user_version = 1");
  db.exec("INSERT INTO names (id, kind, name) VALUES (1, 'account', 'main')");
  const message = db.prepare(
    "INSERT INTO messages (account, wamid, service_id, reference, metadata, registered_at, status, sent_at, updated_at) VALUES (1, ?, ?, ?, ?, ?, 'sent', 5, 6)",
  );
  message.run("w1", "m1", "order-1", '{"team":"a"}', 4);
  message.run("w2", null, null, null, null);
  db.close();
}

test("a file of the first schema is migrated when it is opened for writing: nothing is lost, and what is new works", async () => {
  const path = join(folder, "old.db");
  schemaOne(path);
  expect(() => openForReading(path)).toThrow(
    /has an older schema \(1, this version has \d+\); start "wamid-relay serve" once to migrate it/,
  );
  const before = rowsOf(path, "SELECT * FROM messages ORDER BY seq");

  const store = openSqliteStore(path, rulesFor([{ name: "all" }]), hooks);
  expect(rowsOf(path, "PRAGMA user_version")).toEqual([{ user_version: newestVersion() }]);
  expect(rowsOf(path, "SELECT * FROM messages ORDER BY seq")).toEqual(
    before.map((row) => expect.objectContaining({ ...row, conversation_id: null, told_sent_at: null })),
  );
  const known = { account: "main", wamid: "w1", id: "m1", reference: "order-1", metadata: { team: "a" } };
  expect(await store.registerEach([known, { ...known, conversationId: "c1", sentAt: 3 }, { ...known, id: "m2" }], start)).toEqual([
    { result: "known", due: [] },
    { result: "known", due: [] },
    { result: "conflict", conflicts: { id: { stored: "m1", given: "m2" } } },
  ]);
  expect(await store.register([{ account: "main", wamid: "w2" }], start)).toEqual({ created: 1, due: [] });
  await store.close();
  expect(rowsOf(path, "SELECT wamid, sent_at, conversation_id, told_sent_at, registered_at FROM messages ORDER BY seq")).toEqual([
    { wamid: "w1", sent_at: 5, conversation_id: "c1", told_sent_at: 3, registered_at: 4 },
    { wamid: "w2", sent_at: 5, conversation_id: null, told_sent_at: null, registered_at: start },
  ]);

  const fresh = join(folder, "fresh.db");
  await openSqliteStore(fresh, rulesFor([{ name: "all" }]), hooks).close();
  expect(columns(path)).toEqual(columns(fresh));
});
