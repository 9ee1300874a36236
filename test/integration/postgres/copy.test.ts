import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { copyStore, type OpenSide, refusalOfCopy } from "../../../src/store/copy.ts";
import { openPostgresSide } from "../../../src/store/postgres/copy-side.ts";
import { openPostgresStore } from "../../../src/store/postgres/open.ts";
import { tables } from "../../../src/store/schema/tables.ts";
import { rows } from "../../../src/store/sql/ops.ts";
import { raw, sql } from "../../../src/store/sql/sql.ts";
import { openSqliteSide } from "../../../src/store/sqlite/copy-side.ts";
import { openSqliteStore } from "../../../src/store/sqlite/open.ts";
import { dataId } from "../../../src/store/work/marks.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { createDatabase } from "../../setup/database.ts";

const rules = rulesFor([{ name: "crm" }, { name: "ours", match: { tracked: true } }], { parkFor: 60_000 });
const hooks = { committed: () => {}, failed: () => {} };
const presence = { id: "one", role: "both", host: "here", pid: 1, version: "1" } as const;
const openRelay = (url: string) => openPostgresStore({ url, schema: "relay" }, { rules, hooks, presence, held: () => null });
const order = { now: () => start, progress: () => {} };

function newPath(): string {
  const folder = mkdtempSync(join(tmpdir(), "copy-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "relay.db");
}

async function filledFile(): Promise<string> {
  const path = newPath();
  const store = openSqliteStore(path, rules, hooks);
  for (let n = 0; n < 300; n += 1) await store.accept({ ...anEvent({ wamid: `wamid.${n % 70}` }), body: Buffer.alloc(n * 20, n) });
  await store.register([{ account: "main", wamid: "wamid.3", id: "msg_3", reference: "vip", metadata: { a: "ä\u2028" } }], start);
  await store.claimOnce("once", start + 1_000, start);
  const { account, source, origin } = anEvent();
  await store.quarantine({
    account,
    source,
    origin,
    receivedAt: start,
    body: Buffer.from([0, 255]),
    headers: {},
    secret: null,
    error: "bad",
  });
  await store.close();
  return path;
}

const postgresSide = (url: string): Promise<OpenSide> => openPostgresSide({ url, schema: "relay" }, "the database");
const allOf = async (side: OpenSide) => {
  const all: Record<string, readonly unknown[]> = {};
  for (const { name, key } of tables)
    all[name] = await side.read(
      rows(sql`SELECT * FROM ${raw(name)} ${raw(name === "state" ? "WHERE key NOT LIKE 'store/%'" : "")} ORDER BY ${raw(key.join(", "))}`),
    );
  return JSON.parse(JSON.stringify({ id: await side.read(dataId()), ...all }));
};
const closing = (side: OpenSide) => ({ ...side, [Symbol.asyncDispose]: side.close });

test("copies everything to PostgreSQL and back, by tries that are cut off", async () => {
  const path = await filledFile();
  await using database = await createDatabase();
  const from = openSqliteSide(path, "test");
  const before = await allOf(from);
  expect(before["events"]).toHaveLength(301);

  let report = null;
  for (let tries = 1; report === null; tries += 1) {
    const to = await postgresSide(database.url);
    let left = tries;
    const write: OpenSide["write"] = (make) => {
      left -= 1;
      if (left === 0) throw new Error("cut off");
      return to.write(make);
    };
    report = await copyStore({ ...order, from, to: { ...to, write } }).catch((error) => {
      expect(error).toMatchObject({ message: "cut off" });
      return null;
    });
    // The first one wrote nothing.
    if (report === null && tries > 1) await expect(openRelay(database.url)).rejects.toThrow(/holds a part of .*relay\.db; run the same/);
    await to.close();
  }
  expect(report).toMatchObject({ result: "resumed", finishedAt: start });
  const to = await postgresSide(database.url);
  expect(await allOf(to)).toEqual(before);
  expect(await copyStore({ ...order, from, to })).toMatchObject({ result: "before", counts: [] });
  expect(await from.read(refusalOfCopy())).toMatch(/was moved to the database at/);
  await from.close();
  expect(() => openSqliteStore(path, rules, hooks)).toThrow(/relay\.db was moved to the database/);

  // Numbers go on after the copied ones.
  const relay = await openRelay(database.url);
  await expect(copyStore({ ...order, from: to, to: closing(openSqliteSide(newPath(), "test")) })).rejects.toThrow(/a relay uses it/);
  expect(await relay.store.accept(anEvent({ wamid: "wamid.new" }))).toMatchObject({ seq: 302 });
  await relay.store.close();

  const back = openSqliteSide(newPath(), "test");
  const grown = await allOf(to);
  expect(await copyStore({ ...order, from: to, to: back })).toMatchObject({ result: "copied" });
  expect(await allOf(back)).toEqual(grown);
  await expect(openRelay(database.url)).rejects.toThrow(/was moved to/);
  await back.close();
  await to.close();
});

test("copies into no store that has data, and no file that is in use", async () => {
  const path = await filledFile();
  await using database = await createDatabase();
  const relay = await openRelay(database.url);
  await relay.store.accept(anEvent());
  await relay.store.close();
  const from = openSqliteSide(path, "test");
  expect(() => openSqliteSide(path, "another")).toThrow(/in use/);
  const to = await postgresSide(database.url);
  await expect(copyStore({ ...order, from, to })).rejects.toThrow(/is not empty/);
  await from.close();
  await to.close();
});
