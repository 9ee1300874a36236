import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createArrivals } from "../../../src/receive/arrivals.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { createGroupCommit, type GroupCommitHooks } from "../../../src/store/sqlite/group-commit.ts";

let folder: string;
let db: Database.Database;
let committed: number[];
let rolledBack: unknown[];
let refusal: StoreUnavailable | null;
const hooks: GroupCommitHooks = {
  refusal: () => refusal,
  arriving: () => false,
  beginning: () => {},
  closing: () => {},
  committed: (_tookMs, writes) => void committed.push(writes),
  rolledBack: (error) => void rolledBack.push(error),
};
const rows = () => db.prepare("SELECT value FROM t ORDER BY rowid").pluck().all();

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "group-commit-"));
  db = new Database(join(folder, "a.db"));
  db.pragma("journal_mode = WAL");
  db.pragma("busy_timeout = 100");
  db.exec("CREATE TABLE t (value ANY)");
  [committed, rolledBack, refusal] = [[], [], null];
});
afterEach(() => {
  db.close();
  rmSync(folder, { recursive: true, force: true });
});

function insert(value: unknown) {
  return () => db.prepare("INSERT INTO t VALUES (?)").run(value).changes;
}

test("the writes of one turn are one transaction, in the order they came; the next turn's are the next", async () => {
  const commits = createGroupCommit(db, hooks);
  await Promise.all([1, 2, 3].map((value) => commits.run(insert(value))));
  await commits.run(insert(4));
  expect(rows()).toEqual([1, 2, 3, 4]);
  expect(committed).toEqual([3, 1]);
});

test("a group stays open while more writes are expected, and is committed once none are", async () => {
  let isArriving = true;
  const commits = createGroupCommit(db, { ...hooks, arriving: () => isArriving }, () => 0);
  const first = commits.run(insert(1));
  await nextTurn();
  const second = commits.run(insert(2));
  isArriving = false;
  await Promise.all([first, second]);
  expect(committed).toEqual([2]);
});

test("a group waits for others no longer than twice the last commit's time, within bounds", async () => {
  let at = 0;
  let tookMs = 0;
  const commits = createGroupCommit(
    db,
    {
      ...hooks,
      arriving: () => true,
      closing: () => {
        at += tookMs;
      },
    },
    () => at,
  );
  async function waited(): Promise<number> {
    const from = at;
    let isDone = false;
    const done = commits.run(insert(1)).then(() => {
      isDone = true;
    });
    for (; !isDone && at < from + 1_000; at += isDone ? 0 : 1) await nextTurn();
    await done;
    return at - from - tookMs;
  }
  expect(await waited()).toBe(2);
  tookMs = 6;
  expect(await waited()).toBe(2);
  expect(await waited()).toBe(12);
  tookMs = 500;
  await waited();
  expect(await waited()).toBe(20);
});

test("senders that open a connection per event share commits on a slow disk", async () => {
  const arrivals = createArrivals();
  let at = 0;
  const commits = createGroupCommit(
    db,
    {
      ...hooks,
      arriving: arrivals.expected,
      // What a disk that syncs in 4 ms does: the thread stands still.
      closing() {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4);
        at += 4;
      },
    },
    // Only the disk takes time: on a busy machine, the connections of a group arrive later than its deadline.
    () => at,
  );
  const server = createHttpServer((_request, response) => {
    commits.run(insert(1)).then(() => response.end());
  }).on("connection", arrivals.opened);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const senders = 64;
  const perSender = 5;
  async function sendAll(): Promise<void> {
    for (let n = 0; n < perSender; n += 1) {
      const [response] = await once(get({ port, host: "127.0.0.1", agent: false }), "response");
      await once(response.resume(), "end");
    }
  }
  await Promise.all(Array.from({ length: senders }, sendAll));
  server.close();
  expect(rows().length).toBe(senders * perSender);
  // One event each, it was hundreds.
  expect(committed.length).toBeLessThan((senders * perSender) / 8);
});

test("what closes a transaction is one of its writes, also when each is run again alone", async () => {
  let sum = 0;
  const commits = createGroupCommit(db, {
    ...hooks,
    closing() {
      if (sum > 0) db.prepare("INSERT INTO t VALUES (?)").run(sum);
      sum = 0;
    },
    rolledBack() {
      sum = 0;
    },
  });
  const add = (value: number) =>
    commits.run(() => {
      sum += value;
    });
  await Promise.all([add(1), add(2)]);
  expect(rows()).toEqual([3]);
  const refused = commits.run(() => {
    sum += 100;
    throw new Error("no");
  });
  await Promise.allSettled([add(4), refused, add(5)]);
  await expect(refused).rejects.toThrow("no");
  expect(rows()).toEqual([3, 4, 5]);
});

test("nothing is acknowledged before another connection can read it", async () => {
  const commits = createGroupCommit(db, hooks);
  const other = new Database(join(folder, "a.db"), { readonly: true });
  const seen = () => other.prepare("SELECT count(*) FROM t").pluck().get();
  const first = commits.run(insert(1));
  expect(seen()).toBe(0);
  await first;
  expect(seen()).toBe(1);
  other.close();
});

test("a full file fails the whole group as StoreUnavailable, leaves nothing of it, and goes on once there is room", async () => {
  const commits = createGroupCommit(db, hooks);
  const pages = db.pragma("page_count", { simple: true }) as number;
  db.pragma(`max_page_count = ${pages}`);
  const group = await Promise.allSettled([
    commits.run(insert("small")),
    commits.run(insert("x".repeat(100_000))),
    commits.run(insert("late")),
  ]);
  for (const result of group) {
    expect(result).toMatchObject({
      status: "rejected",
      reason: { name: "StoreUnavailable", message: "cannot store now: database or disk is full" },
    });
  }
  expect(rolledBack).toMatchObject([{ code: "SQLITE_FULL" }]);
  expect(rows()).toEqual([]);
  expect(db.inTransaction).toBe(false);

  db.pragma("max_page_count = 100000");
  await Promise.all([commits.run(insert("small")), commits.run(insert("x".repeat(100_000)))]);
  expect(rows().length).toBe(2);
  expect(committed).toEqual([2]);
});

test("a file that another process writes: StoreUnavailable after the short wait", async () => {
  const commits = createGroupCommit(db, hooks);
  const other = new Database(join(folder, "a.db"));
  other.exec("BEGIN IMMEDIATE");
  await expect(commits.run(insert(1))).rejects.toBeInstanceOf(StoreUnavailable);
  other.exec("COMMIT");
  other.close();
  await commits.run(insert(2));
  expect(rows()).toEqual([2]);
});

test("writes that fail by themselves hear of it alone, and what they had written before is undone", async () => {
  const commits = createGroupCommit(db, hooks);
  const bad = (why: string) => () => {
    insert(why)();
    throw new Error(why);
  };
  const results = await Promise.allSettled([
    commits.run(insert(1)),
    commits.run(bad("first")),
    commits.run(insert(2)),
    commits.run(bad("second")),
    commits.run(insert(3)),
  ]);
  expect(results.map((result) => (result.status === "fulfilled" ? result.value : (result.reason as Error).message))).toEqual([
    1,
    "first",
    1,
    "second",
    1,
  ]);
  expect(rows()).toEqual([1, 2, 3]);
  expect(rolledBack.length).toBeGreaterThan(0);
});

test("a transaction that changed nothing is not counted as storing", async () => {
  const commits = createGroupCommit(db, hooks);
  expect(await commits.run(() => rows().length)).toBe(0);
  await commits.run(() => db.prepare("DELETE FROM t").run().changes);
  expect(committed).toEqual([]);
  await commits.run(insert(1));
  expect(committed).toEqual([1]);
});

test("refused: nothing is written until it is allowed again", async () => {
  const commits = createGroupCommit(db, hooks);
  refusal = new StoreUnavailable("gone");
  await expect(commits.run(insert(1))).rejects.toBe(refusal);
  refusal = null;
  await commits.run(insert(2));
  expect(rows()).toEqual([2]);
});

test("idle waits for everything handed in, also for what is handed in meanwhile", async () => {
  const commits = createGroupCommit(db, hooks);
  await commits.idle();
  let late: Promise<number> | null = null;
  const first = commits.run(() => {
    late = commits.run(insert(2));
    return insert(1)();
  });
  await commits.idle();
  expect(rows()).toEqual([1, 2]);
  await Promise.all([first, late]);
});
