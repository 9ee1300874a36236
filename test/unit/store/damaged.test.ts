import {
  closeSync,
  copyFileSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { beforeEach, expect, test } from "vitest";
import { StoreRefused, StoreUnavailable } from "../../../src/store/port.ts";
import { isStorageFault } from "../../../src/store/sqlite/faults.ts";
import { openSqliteStore } from "../../../src/store/sqlite/open.ts";
import { anEvent, rulesFor } from "../../contract/store-events.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

const pageSize = 4096;
const quiet = { committed: () => {}, failed: () => {} };
/** Accepts `count` events in one commit: alone, each would wait for the disk. */
const acceptAll = (
  store: ReturnType<typeof openSqliteStore>,
  count: number,
  id: string,
  wamids = count,
) =>
  Promise.all(
    Array.from({ length: count }, (_, n) =>
      store.accept(anEvent({ wamid: `wamid.${n % wamids}`, id: `${id}-${n}` })),
    ),
  );
let folder: string;
beforeEach(() => {
  folder = tempFolder();
});

/**
 * Destroys each page of a store with `events` events in a copy of its own, and opens it: null when
 * it is refused.
 */
async function* destroyed(events: number) {
  const whole = join(folder, "whole.db");
  const rules = rulesFor([{ name: "all" }]);
  const store = openSqliteStore(whole, rules, quiet);
  await acceptAll(store, events, "before", 20);
  await store.close();
  const pages = readFileSync(whole).length / pageSize;
  expect(pages).toBeGreaterThan(20);
  for (let page = 0; page < pages; page += 1) {
    const path = join(folder, `page-${page}.db`);
    copyFileSync(whole, path);
    const file = openSync(path, "r+");
    writeSync(file, Buffer.alloc(pageSize, 0xab), 0, pageSize, page * pageSize);
    closeSync(file);
    const failures: unknown[] = [];
    try {
      const damaged = openSqliteStore(path, rules, {
        ...quiet,
        failed: (error) => void failures.push(error),
      });
      yield { damaged, failures };
      await damaged.close();
    } catch (error) {
      expect(error).toBeInstanceOf(StoreRefused);
      expect((error as Error).message).toMatch(/^[^\n]*page-\d+\.db (is|cannot)[^\n]*$/);
      yield null;
    }
  }
}

test("whichever page is destroyed: refused in one line at the start, or StoreUnavailable when it is needed", async () => {
  const seen = { refused: 0, unavailable: 0 };
  for await (const opened of destroyed(60)) {
    if (opened === null) {
      seen.refused += 1;
      continue;
    }
    const { damaged } = opened;
    // What a start reads; then writes that meet old rows and add new ones.
    expect(damaged.read.stopReason("all")).toBeNull();
    const results = await Promise.allSettled(
      Array.from({ length: 40 }, (_, n) =>
        damaged.accept(
          anEvent({ wamid: `wamid.${n}`, id: n % 2 === 0 ? `before-${n}` : `after-${n}` }),
        ),
      ),
    );
    const failed = results.filter((result) => result.status === "rejected");
    for (const { reason } of failed) expect(reason).toBeInstanceOf(StoreUnavailable);
    if (failed.length > 0) seen.unavailable += 1;
  }
  expect(seen.refused).toBeGreaterThan(5);
  expect(seen.unavailable).toBeGreaterThan(3);
});

test("whichever page is destroyed: a read that needs it says StoreUnavailable, and from then on nothing is stored", async () => {
  let damages = 0;
  for await (const opened of destroyed(200)) {
    if (opened === null) continue;
    const { damaged, failures } = opened;
    const reads = [
      () => damaged.read.listEvents({ limit: 1_000 }),
      () => damaged.read.listDeliveries({ limit: 1_000 }),
      () => damaged.read.listMessages({ after: 0, before: Number.MAX_SAFE_INTEGER, limit: 1_000 }),
      () => damaged.due({ route: "all", from: 0, now: Number.MAX_SAFE_INTEGER, limit: 1_000 }),
      () => damaged.load("all", [{ lane: 1, event: 1 }]),
    ];
    for (const read of reads) {
      try {
        read();
      } catch (error) {
        expect(error).toBeInstanceOf(StoreUnavailable);
        expect((error as Error).message).toMatch(
          /page-\d+\.db is damaged; stop the relay, and restore it from a copy/,
        );
      }
    }
    if (failures.length === 0) continue;
    damages += 1;
    expect(failures[0]).toBeInstanceOf(StoreUnavailable);
    expect(damaged.isInPlace()).toBe(false);
    await expect(damaged.accept(anEvent({ wamid: "v", id: "after" }))).rejects.toMatchObject({
      name: "StoreUnavailable",
      message: expect.stringContaining("is damaged"),
    });
  }
  expect(damages).toBeGreaterThan(5);
});

/** A store with some events in the file, and some in its log alone. */
async function running(name: string) {
  const path = join(folder, name, "relay.db");
  mkdirSync(join(folder, name));
  const failures: unknown[] = [];
  const store = openSqliteStore(path, rulesFor([{ name: "all" }]), {
    ...quiet,
    failed: (error) => void failures.push(error),
  });
  await acceptAll(store, 300, "before");
  const checkpoint = (): void => {
    const other = new Database(path);
    other.pragma("wal_checkpoint(TRUNCATE)");
    other.close();
  };
  checkpoint();
  await acceptAll(store, 50, "in-log");
  return { path, store, failures, checkpoint };
}

const harms: readonly (readonly [what: string, harm: (path: string) => void, said: RegExp])[] = [
  ["is emptied", (path) => truncateSync(path, 0), /relay\.db was truncated while in use/],
  [
    "loses its second half",
    (path) => truncateSync(path, 8 * pageSize),
    /relay\.db was truncated while in use/,
  ],
  [
    "loses its log's contents",
    (path) => truncateSync(`${path}-wal`, 0),
    /relay\.db-wal was truncated while in use/,
  ],
  [
    "loses half of its log",
    (path) => truncateSync(`${path}-wal`, 20_000),
    /relay\.db-wal was truncated while in use/,
  ],
  ["is deleted", (path) => rmSync(path), /relay\.db was deleted or replaced while in use/],
  ["loses its log", (path) => rmSync(`${path}-wal`), /relay\.db-wal was deleted or replaced/],
  ["loses its index", (path) => rmSync(`${path}-shm`), /relay\.db-shm was deleted or replaced/],
  [
    "loses its folder",
    (path) => renameSync(join(path, ".."), join(path, "../../away")),
    /relay\.db was deleted or replaced/,
  ],
  [
    // As for a folder that this user may not enter, which root may.
    "cannot be looked at",
    (path) => {
      renameSync(join(path, ".."), join(path, "../../away"));
      symlinkSync(join(path, ".."), join(path, ".."));
    },
    /relay\.db cannot be reached; check the rights/,
  ],
  [
    "is replaced by a copy",
    (path) => {
      copyFileSync(path, `${path}.copy`);
      renameSync(`${path}.copy`, path);
    },
    /relay\.db was deleted or replaced/,
  ],
];

test.each(harms)(
  "a file that %s while in use: nothing is acknowledged from then on",
  async (_what, harm, said) => {
    const { path, store, failures } = await running("harmed");
    expect(store.isInPlace()).toBe(true);
    harm(path);
    await expect(store.accept(anEvent({ wamid: "v", id: "after" }))).rejects.toMatchObject({
      name: "StoreUnavailable",
      message: expect.stringMatching(said),
    });
    expect(store.isInPlace()).toBe(false);
    expect(failures.length).toBeGreaterThan(0);
    await store.close();
  },
);

test("a checkpoint of another program, which empties the log, is no fault", async () => {
  const { store, failures, checkpoint } = await running("checkpoint");
  checkpoint();
  expect(store.isInPlace()).toBe(true);
  await store.accept(anEvent({ wamid: "v", id: "after" }));
  checkpoint();
  await store.accept(anEvent({ wamid: "v", id: "later" }));
  expect(failures).toEqual([]);
  await store.close();
});

test("which codes of SQLite are faults of the disk or file", () => {
  const codes = (list: string) => list.split(" ").map((word) => `SQLITE_${word}`);
  const faults = codes(
    "FULL IOERR IOERR_SHORT_READ IOERR_FSYNC READONLY READONLY_DBMOVED BUSY BUSY_SNAPSHOT LOCKED CORRUPT CORRUPT_INDEX NOTADB CANTOPEN NOMEM PERM AUTH PROTOCOL NOLFS INTERNAL INTERRUPT SCHEMA",
  );
  for (const code of faults) expect([code, isStorageFault({ code })]).toEqual([code, true]);
  for (const code of codes(
    "ERROR CONSTRAINT CONSTRAINT_UNIQUE TOOBIG MISMATCH MISUSE RANGE BUSYBODY",
  )) {
    expect([code, isStorageFault({ code })]).toEqual([code, false]);
  }
  for (const error of [null, undefined, "SQLITE_FULL", new Error("SQLITE_FULL"), { code: 10 }])
    expect(isStorageFault(error)).toBe(false);
});
