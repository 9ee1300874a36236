import { once } from "node:events";
import { createServer as createHttpServer, get } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { createArrivals } from "../../../src/receive/http.ts";
import { each } from "../../../src/store/create-store.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { events } from "../../../src/store/schema/tables.ts";
import { rows as ask, ask as askFor, find, look, type Work } from "../../../src/store/sql/ops.ts";
import { sql } from "../../../src/store/sql/sql.ts";
import { type CommitHooks, createSqliteCommit } from "../../../src/store/sqlite/commit.ts";
import { createSqliteRunner } from "../../../src/store/sqlite/runner.ts";
import { tempFolder } from "../../harness/temp-folder.ts";

let folder: string;
let db: Database.Database;
let committed: number[];
let rolledBack: unknown[];
let refusal: StoreUnavailable | null;
const hooks: CommitHooks = {
  *begin() {},
  refusal: () => refusal,
  arriving: () => false,
  committed: (_tookMs, writes) => void committed.push(writes),
  rolledBack: (error) => void rolledBack.push(error),
};
const rows = () => db.prepare("SELECT value FROM t ORDER BY rowid").pluck().all();

beforeEach(() => {
  folder = tempFolder();
  db = new Database(join(folder, "a.db"));
  db.pragma("journal_mode = WAL");
  db.pragma("busy_timeout = 100");
  db.exec("CREATE TABLE t (value ANY)");
  [committed, rolledBack, refusal] = [[], [], null];
});
afterEach(() => void db.close());

const others = each((make: () => Work<unknown>) => make());

/** `run` takes any command. `commits`: what the disk does at each commit. */
function createCommits(
  own: CommitHooks = hooks,
  now?: () => number,
  commits: () => void = () => {},
) {
  const runner = createSqliteRunner(db);
  const disk: typeof runner = {
    ...runner,
    transact(work) {
      const result = runner.transact(work);
      commits();
      return result;
    },
  };
  const commit = createSqliteCommit(disk, own, now);
  const run = <T>(make: () => Work<T>, kind = others): Promise<T> =>
    commit.run(kind, make) as Promise<T>;
  return { run, idle: commit.idle };
}

const insert = (value: string | number) => () => ask(sql`INSERT INTO t VALUES (${value})`);

test("the writes of one turn are one transaction, in the order they came; the next turn's are the next", async () => {
  const commits = createCommits();
  await Promise.all([1, 2, 3].map((value) => commits.run(insert(value))));
  await commits.run(insert(4));
  expect(rows()).toEqual([1, 2, 3, 4]);
  expect(committed).toEqual([3, 1]);
});

test("a group stays open while more writes are expected, and is committed once none are", async () => {
  let isArriving = true;
  const commits = createCommits({ ...hooks, arriving: () => isArriving }, () => 0);
  const first = commits.run(insert(1));
  await nextTurn();
  const second = commits.run(insert(2));
  isArriving = false;
  await Promise.all([first, second]);
  expect(committed).toEqual([2]);
});

test("a group stays open while each turn brings another write", async () => {
  const commits = createCommits(hooks, () => 0);
  const writes: Promise<unknown>[] = [];
  for (let value = 1; value <= 3; value += 1) {
    writes.push(commits.run(insert(value)));
    await nextTurn();
  }
  await Promise.all(writes);
  await commits.run(insert(4));
  expect(committed).toEqual([3, 1]);
});

test("a group waits for others no longer than twice the last commit's time, within bounds", async () => {
  let at = 0;
  let tookMs = 0;
  const commits = createCommits(
    { ...hooks, arriving: () => true },
    () => at,
    () => {
      at += tookMs;
    },
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

test("commands of one kind do not wait behind a thousand of another, which go on meanwhile", async () => {
  const commits = createCommits();
  let outcomes = 0;
  const settling = Array.from({ length: 1_000 }, () =>
    commits.run(insert("outcome")).then(() => {
      outcomes += 1;
    }),
  );
  const events = each((make: () => Work<unknown>) => make());
  await Promise.all(Array.from({ length: 150 }, () => commits.run(insert("event"), events)));
  expect(outcomes).toBeLessThanOrEqual(375);
  await Promise.all(settling);
  // Half for each kind, then what is left of the smaller one and more of the larger one.
  expect(committed).toEqual([250, 250, 250, 250, 150]);
});

test("senders that open a connection per event share commits on a slow disk", async () => {
  const arrivals = createArrivals();
  let at = 0;
  const commits = createCommits(
    { ...hooks, arriving: arrivals.expected },
    // Only the disk takes time: on a busy machine, the connections of a group arrive later than its
    // deadline.
    () => at,
    // What a disk that syncs in 4 ms does: the thread stands still.
    () => {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 4);
      at += 4;
    },
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

test("nothing is acknowledged before another connection can read it", async () => {
  const commits = createCommits();
  const other = new Database(join(folder, "a.db"), { readonly: true });
  const seen = () => other.prepare("SELECT count(*) FROM t").pluck().get();
  const first = commits.run(insert(1));
  expect(seen()).toBe(0);
  await first;
  expect(seen()).toBe(1);
  other.close();
});

test("a full file fails the whole group as StoreUnavailable, leaves nothing of it, and goes on once there is room", async () => {
  const commits = createCommits();
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
  const commits = createCommits();
  const other = new Database(join(folder, "a.db"));
  other.exec("BEGIN IMMEDIATE");
  await expect(commits.run(insert(1))).rejects.toBeInstanceOf(StoreUnavailable);
  other.exec("COMMIT");
  other.close();
  await commits.run(insert(2));
  expect(rows()).toEqual([2]);
});

test("writes that fail by themselves hear of it alone, and what they had written before is undone", async () => {
  const commits = createCommits();
  const bad = (why: string) =>
    function* () {
      yield* insert(why)();
      throw new Error(why);
    };
  const results = await Promise.allSettled([
    commits.run(insert(1)),
    commits.run(bad("first")),
    commits.run(insert(2)),
    commits.run(bad("second")),
    commits.run(insert(3)),
  ]);
  expect(
    results.map((result) =>
      result.status === "fulfilled" ? "stored" : (result.reason as Error).message,
    ),
  ).toEqual(["stored", "first", "stored", "second", "stored"]);
  expect(rows()).toEqual([1, 2, 3]);
  expect(rolledBack.length).toBeGreaterThan(0);
});

test("a transaction that changed nothing is not counted as storing", async () => {
  const commits = createCommits();
  expect(await commits.run(() => ask(sql`SELECT value FROM t`))).toEqual([]);
  await commits.run(() => ask(sql`DELETE FROM t`));
  expect(committed).toEqual([]);
  await commits.run(insert(1));
  expect(committed).toEqual([1]);
});

test("refused: nothing is written until it is allowed again", async () => {
  const commits = createCommits();
  refusal = new StoreUnavailable("gone");
  await expect(commits.run(insert(1))).rejects.toBe(refusal);
  refusal = null;
  await commits.run(insert(2));
  expect(rows()).toEqual([2]);
});

test("idle waits for everything handed in, also for what is handed in meanwhile", async () => {
  const commits = createCommits();
  await commits.idle();
  let late: Promise<unknown> | null = null;
  const first = commits.run(function* () {
    late = commits.run(insert(2));
    yield* insert(1)();
  });
  await commits.idle();
  expect(rows()).toEqual([1, 2]);
  await Promise.all([first, late]);
});

test("a look-up is prepared once, also one that is declared again for each call", () => {
  db.exec("CREATE TABLE events (seq INTEGER PRIMARY KEY, subject INTEGER)");
  let prepared = 0;
  const prepare = db.prepare.bind(db);
  db.prepare = ((text: string) => {
    prepared += 1;
    return prepare(text);
  }) as typeof db.prepare;
  const { now } = createSqliteRunner(db);
  const before = prepared;
  for (let call = 0; call < 10; call += 1)
    expect(now(askFor(find(look(events, ["seq"], ["subject"]), [[call]])))).toEqual([undefined]);
  expect(prepared - before).toBe(1);
});
