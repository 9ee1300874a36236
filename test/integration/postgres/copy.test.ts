import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { audit } from "../../../src/store/audit/audit.ts";
import {
  type CopySide,
  type CopyTarget,
  copyStore,
  refusalOfCopy,
} from "../../../src/store/copy.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { openPostgresSource, openPostgresTarget } from "../../../src/store/postgres/copy-side.ts";
import { openPostgresStore } from "../../../src/store/postgres/open.ts";
import { tables } from "../../../src/store/schema/tables.ts";
import { rows } from "../../../src/store/sql/ops.ts";
import { raw, sql } from "../../../src/store/sql/sql.ts";
import { openSqliteSource, openSqliteTarget } from "../../../src/store/sqlite/copy-side.ts";
import { openSqliteStore, type SqliteStore } from "../../../src/store/sqlite/open.ts";
import { put } from "../../../src/store/work/state.ts";
import { dataId } from "../../../src/store/work/state-rows.ts";
import { anEvent, rulesFor, start, unreadable } from "../../contract/store-events.ts";
import { openSession } from "../../harness/postgres-session.ts";
import { tempFolder } from "../../harness/temp-folder.ts";
import { until } from "../../harness/until.ts";
import { createDatabase } from "../../setup/database.ts";

const rules = rulesFor([{ name: "crm" }, { name: "ours", match: { tracked: true } }], {
  parkFor: 60_000,
});
const hooks = { committed: () => {}, failed: () => {} };
const presence = { id: "one", role: "both", host: "here", pid: 1, version: "1" } as const;
const openRelay = (url: string) =>
  openPostgresStore({ url, schema: "relay" }, { rules, hooks, presence, held: () => null });
const order = { now: () => start, progress: () => {} };

const newPath = (): string => join(tempFolder(), "relay.db");

async function filledFile(): Promise<string> {
  const path = newPath();
  const store = openSqliteStore(path, rules, hooks);
  const events = Array.from({ length: 300 }, (_, n) => ({
    ...anEvent({ wamid: `wamid.${n % 70}` }),
    body: Buffer.alloc(n * 20, n),
  }));
  // In one commit: alone, each would wait for the disk.
  await Promise.all(events.map((event) => store.accept(event)));
  await store.register(
    [
      {
        account: "main",
        wamid: "wamid.3",
        id: "msg_3",
        reference: "vip",
        metadata: { a: "ä\u2028" },
      },
    ],
    start,
  );
  await store.claimOnce("once", start + 1_000);
  await store.quarantine({
    ...unreadable(anEvent({ secret: null })),
    body: Buffer.from([0, 255]),
  });
  await store.close();
  return path;
}

const postgresTarget = (url: string) =>
  openPostgresTarget({ url, schema: "relay" }, "the database");
const postgresSource = (url: string) =>
  openPostgresSource({ url, schema: "relay" }, "the database");
const allOf = async (side: CopySide) => {
  const all: Record<string, readonly unknown[]> = {};
  for (const { name, key } of tables)
    all[name] = await side.read(
      rows(
        sql`SELECT * FROM ${raw(name)} ${raw(name === "state" ? "WHERE key NOT LIKE 'store/%' AND key NOT LIKE 'process/%'" : "")} ORDER BY ${raw(key.join(", "))}`,
      ),
    );
  return JSON.parse(JSON.stringify({ id: await side.read(dataId()), ...all }));
};

/**
 * Settles the first delivery that is due: a row of the queue goes, and one of the deliveries comes.
 */
async function deliverFirst(store: SqliteStore, now: number): Promise<void> {
  const { places } = await store.due({ route: "crm", from: 0, now: now + 60_000, limit: 1 });
  const [delivery] = await store.load("crm", places);
  if (delivery === undefined) throw new Error("nothing is due");
  const { event, eventId, attempts } = delivery;
  const attempt = {
    number: attempts + 1,
    at: now,
    tookMs: 1,
    result: { kind: "answered", status: 200, retryAfterMs: null },
    response: null,
  } as const;
  expect(
    await store.settle({
      route: "crm",
      event,
      eventId,
      delivery,
      attempt,
      settled: { to: "delivered" },
      at: now,
    }),
  ).toMatchObject({
    result: "settled",
  });
}

test("copies everything to PostgreSQL and back while a relay writes, by tries that are cut off", async () => {
  const path = await filledFile();
  await using database = await createDatabase();
  const file = openSqliteStore(path, rules, hooks);
  const repeated = anEvent({ wamid: "wamid.repeated" });
  await file.accept(repeated);

  let report = null;
  for (let tries = 1; report === null; tries += 1) {
    const from = openSqliteSource(path);
    const to = await postgresTarget(database.url);
    let left = tries;
    const write: CopyTarget["write"] = (make) => {
      left -= 1;
      if (left === 0) throw new Error("cut off");
      return to.write(make);
    };
    report = await copyStore({ ...order, from, to: { ...to, write } }).catch((error) => {
      expect(error).toMatchObject({ message: "cut off" });
      return null;
    });
    const isMoved = (await from.read(refusalOfCopy())) !== null;
    await Promise.all([from.close(), to.close()]);
    if (report !== null) break;
    // The first one wrote nothing.
    if (tries > 1)
      await expect(openRelay(database.url)).rejects.toThrow(
        /holds a part of .*relay\.db; run the same/,
      );
    if (isMoved) continue;
    // New rows, changed ones, and removed ones.
    expect(await file.accept(anEvent({ wamid: `wamid.late-${tries}` }))).toMatchObject({
      result: "accepted",
    });
    expect(await file.accept(repeated)).toMatchObject({ result: "duplicate" });
    await deliverFirst(file, start + tries);
  }
  expect(report).toMatchObject({ result: "resumed", finishedAt: start });
  await expect(file.accept(anEvent({ wamid: "wamid.refused" }))).rejects.toThrow(
    /relay\.db was moved to the database/,
  );
  await file.close();
  expect(() => openSqliteStore(path, rules, hooks)).toThrow(/relay\.db was moved to the database/);
  const from = openSqliteSource(path);
  const to = await postgresTarget(database.url);
  const before = await allOf(from);
  expect(await allOf(to)).toEqual(before);
  expect(before["events"].length).toBeGreaterThan(250);
  expect(await copyStore({ ...order, from, to })).toMatchObject({ result: "before", counts: [] });
  await Promise.all([from.close(), to.close()]);

  // Numbers go on after the copied ones.
  const relay = await openRelay(database.url);
  const last = before["events"].at(-1).seq;
  expect(await relay.store.accept(anEvent({ wamid: "wamid.new" }))).toMatchObject({
    seq: last + 1,
  });
  const source = await postgresSource(database.url);
  const back = openSqliteTarget(newPath(), "test");
  expect(await copyStore({ ...order, from: source, to: back })).toMatchObject({ result: "copied" });
  expect(await allOf(back)).toEqual(await allOf(source));
  await expect(relay.store.accept(anEvent({ wamid: "wamid.refused" }))).rejects.toThrow(
    /was moved to .*relay\.db/,
  );
  await relay.store.close();
  await expect(openRelay(database.url)).rejects.toThrow(/was moved to/);
  await Promise.all([back.close(), source.close()]);
});

test("lets all relays of a database write again when a copy ends before its mark", async () => {
  await using database = await createDatabase();
  const relay = await openRelay(database.url);
  const accepted = await relay.store.accept(anEvent());
  const source = await postgresSource(database.url);
  await source.freeze(() => put("store/moved", { to: "elsewhere", at: start }), "was moved");
  let isWritten = false;
  const writing = relay.store.accept(anEvent({ wamid: "wamid.waits" })).finally(() => {
    isWritten = true;
  });
  expect(await source.read(rows(sql`SELECT seq FROM events`))).toEqual([{ seq: accepted?.seq }]);
  expect(isWritten).toBe(false);
  await source.close();
  // It waited for the lock, or for too long.
  await writing.catch((error) => expect(error).toBeInstanceOf(StoreUnavailable));
  await until("the relay stores", async () =>
    relay.store.accept(anEvent({ wamid: "wamid.again" })).then(
      () => true,
      () => false,
    ),
  );
  await relay.store.close();
});

test("a copy that a second one has overtaken writes nothing more", async () => {
  const path = await filledFile();
  await using database = await createDatabase();
  const overtaken = Promise.withResolvers<void>();
  const paused = Promise.withResolvers<void>();
  const [from, to] = [openSqliteSource(path), await postgresTarget(database.url)];
  let reads = 0;
  const read: CopyTarget["read"] = async (work) => {
    reads += 1;
    if (reads === 4) {
      paused.resolve();
      await overtaken.promise;
    }
    return to.read(work);
  };
  const first = copyStore({ ...order, from, to: { ...to, read } });
  await paused.promise;
  const [from2, to2] = [openSqliteSource(path), await postgresTarget(database.url)];
  expect(await copyStore({ ...order, from: from2, to: to2 })).toMatchObject({ result: "resumed" });
  await Promise.all([from2.close(), to2.close()]);
  const relay = await openRelay(database.url);
  const accepted = await relay.store.accept(anEvent({ wamid: "wamid.new" }));
  // It would remove what its source has not.
  overtaken.resolve();
  await expect(first).rejects.toThrow('another "wamid-relay migrate" has continued this copy');
  expect(await relay.store.read.getEvent(accepted?.seq ?? 0)).not.toBeNull();
  await relay.store.close();
  await Promise.all([from.close(), to.close()]);
});

test("of two copies of one store into two places, only one ends", async () => {
  const path = await filledFile();
  await using database = await createDatabase();
  await using other = await createDatabase();
  const [from, to] = [openSqliteSource(path), await postgresTarget(database.url)];
  const [from2, to2] = [openSqliteSource(path), await postgresTarget(other.url)];
  let isFirst = true;
  const write: CopyTarget["write"] = async (make) => {
    if (isFirst) {
      isFirst = false;
      await copyStore({ now: () => start + 1, progress: () => {}, from: from2, to: to2 });
    }
    return to.write(make);
  };
  for (let tries = 1; tries <= 2; tries += 1)
    await expect(copyStore({ ...order, from, to: { ...to, write } })).rejects.toThrow(
      /relay\.db: was moved to the database at/,
    );
  await Promise.all([from.close(), to.close(), from2.close(), to2.close()]);
  const relay = await openRelay(other.url);
  await relay.store.close();
  await expect(openRelay(database.url)).rejects.toThrow(/holds a part of/);
});

test("copies into no store that has data or a relay", async () => {
  const path = await filledFile();
  await using database = await createDatabase();
  const from = openSqliteSource(path);
  const to = await postgresTarget(database.url);
  const relay = await openRelay(database.url);
  await expect(copyStore({ ...order, from, to })).rejects.toThrow(/a relay uses it/);
  await relay.store.accept(anEvent());
  await relay.store.close();
  await expect(copyStore({ ...order, from, to })).rejects.toThrow(/is not empty/);
  const file = openSqliteStore(path, rules, hooks);
  expect(() => openSqliteTarget(path, "test")).toThrow(/in use/);
  await file.close();
  await Promise.all([from.close(), to.close()]);
});

test("a number that PostgreSQL did not use is no missing event in a file, and a later one is", async () => {
  await using database = await createDatabase();
  const relay = await openRelay(database.url);
  await relay.store.accept(anEvent({ wamid: "wamid.1" }));
  await using session = await openSession(database.url);
  await session.rows("SELECT nextval('relay.events_seq')");
  await relay.store.accept(anEvent({ wamid: "wamid.2" }));
  await relay.store.close();
  const path = newPath();
  const source = await postgresSource(database.url);
  const target = openSqliteTarget(path, "test");
  expect(await copyStore({ ...order, from: source, to: target })).toMatchObject({
    result: "copied",
  });
  await Promise.all([source.close(), target.close()]);

  async function missing(): Promise<unknown> {
    const file = openSqliteSource(path);
    const report = await file.read(audit({ now: start, isRunning: false }, () => {}));
    await file.close();
    return report.offenders
      .filter(({ rule }) => rule === "event missing")
      .map(({ event }) => event);
  }
  expect(await missing()).toEqual([]);
  const store = openSqliteStore(path, rules, hooks);
  for (const wamid of ["wamid.4", "wamid.5", "wamid.6"]) await store.accept(anEvent({ wamid }));
  await store.close();
  const db = new Database(path);
  db.prepare("DELETE FROM events WHERE seq = 5").run();
  db.close();
  expect(await missing()).toEqual([5]);
});
