import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { createReplaying } from "../../../src/app/replaying.ts";
import type { ReplayQuery } from "../../../src/model/queries.ts";
import { packEventId } from "../../../src/store/schema/codes.ts";
import { queueState, settledState } from "../../../src/store/schema/tables.ts";
import { openSqliteStore, type SqliteStore } from "../../../src/store/sqlite/open.ts";
import { loadDeliveries } from "../../../src/store/work/attempts.ts";
import { rowsOf } from "../../harness/store-rows.ts";

const start = 1_800_000_000_000;
const rules = {
  stepMessage: () => {
    throw new Error("not used");
  },
  stepRun: () => {
    throw new Error("not used");
  },
  plan: () => ({ disposition: "filtered" as const, verdicts: [] }),
  timing: () => ({ ordered: true, firstWait: 0 }),
  hydration: () => null,
  parkFor: 0,
};

/** A store with `events` events on two routes, of three to a message; those of route b delivered, of route a dead. */
async function storeWith(events: number): Promise<{ store: SqliteStore; path: string }> {
  const folder = mkdtempSync(join(tmpdir(), "replay-test-"));
  const path = join(folder, "relay.db");
  const hooks = { committed: () => {}, failed: () => {} };
  await openSqliteStore(path, rules, hooks).close();
  const db = new Database(path);
  const subject = db.prepare(
    "INSERT INTO subjects (seq, type, account, key, name, times, updated_at) VALUES (?, 0, 'main', ?, ?, '{}', 0)",
  );
  const event = db.prepare(
    `INSERT INTO events (seq, account, id, kind, source, origin, received_at, subject, moved, error_code, disposition, duplicates, conflicts, body)
     VALUES (?, 'main', ?, 'message.status', 'main', 0, ?, ?, 0, ?, 0, 0, 0, x'7b7d')`,
  );
  const delivery = db.prepare(
    "INSERT INTO deliveries (event, route, account, lane, state, attempts, spent, replays, settled_at) VALUES (?, ?, 'main', ?, ?, 1, 1, 0, ?)",
  );
  db.transaction(() => {
    for (let each = 1; each <= events; each++) {
      const lane = Math.ceil(each / 3);
      if (each % 3 === 1) subject.run(lane, Buffer.from(`${lane}`.padStart(16)), `w${lane}`);
      event.run(each, packEventId(`event ${each}`), start + each, lane, each % 10 === 0 ? "131026" : null);
      delivery.run(each, "a", lane, settledState.dead, start);
      delivery.run(each, "b", lane, settledState.delivered, start);
    }
  })();
  db.close();
  const store = openSqliteStore(path, rules, hooks);
  onTestFinished(async () => {
    await store.close();
    rmSync(folder, { recursive: true });
  });
  return { store, path };
}

function settleDead(store: SqliteStore, event: number, route: string, number: number, at: number) {
  const [delivery] = store.look(loadDeliveries(route, [{ lane: Math.ceil(event / 3), event }]));
  if (delivery === undefined) throw new Error(`${event} does not wait`);
  const attempt = { number, at, tookMs: 1, result: { kind: "failed", error: "reset" } as const, response: null };
  return store.settle({ route, event, delivery, attempt, settled: { to: "dead", reason: "again" }, at });
}

test("replays no delivery that dies again, or for the first time, while it runs", async () => {
  const { store, path } = await storeWith(3_000);
  let now = start + 10_000;
  const settling: Promise<unknown>[] = [];
  const replaying = createReplaying({
    store,
    now: () => now,
    isRouted: () => true,
    stopping: () => false,
    announce(due) {
      now += 1;
      for (const { route, event } of due) settling.push(settleDead(store, event, route, 2, now));
    },
  });
  // The last event's has been waiting, and dies as soon as the replay has begun.
  await store.retry(3_000, "a", now);
  now += 1;
  const cursor = `${now}.0.0`;
  now += 1;
  await settleDead(store, 3_000, "a", 2, now);
  const filter: ReplayQuery = { route: "a", states: ["dead"] };
  // A slow machine ends a step early.
  let replayed = 0;
  for (let next: string | null = cursor; next !== null; ) {
    const step = await replaying.replay(filter, next, Number.MAX_SAFE_INTEGER);
    replayed += step.replayed;
    next = step.next;
  }
  expect(replayed).toBe(2_999);
  await Promise.all(settling);
  const replays = rowsOf(
    path,
    `SELECT replays, count(*) AS n FROM (SELECT route, replays FROM queue UNION ALL SELECT route, replays FROM deliveries)
     WHERE route = 'a' GROUP BY replays`,
  );
  expect(replays).toEqual([{ replays: 1, n: 3_000 }]);
});

test("keeps the order: sends the first delivery of a message, and holds the others behind it", async () => {
  const { store, path } = await storeWith(600);
  const offered: number[] = [];
  const replaying = createReplaying({
    store,
    now: () => start + 10_000,
    isRouted: (route) => route === "b",
    stopping: () => false,
    announce: (due) => void offered.push(...due.map(({ event }) => event)),
  });
  const filter: ReplayQuery = { states: ["dead", "delivered"] };
  expect(await replaying.count(filter)).toEqual({
    matching: 600,
    routes: [{ route: "b", matching: 600, stopped: null }],
    notSent: [{ route: "a", matching: 600 }],
  });
  let next: string | null = null;
  let replayed = 0;
  let calls = 0;
  do {
    const step: { replayed: number; next: string | null } = await replaying.replay(filter, next, 70);
    expect(step.replayed).toBeLessThanOrEqual(70);
    replayed += step.replayed;
    next = step.next;
    calls += 1;
  } while (next !== null);
  expect([replayed, calls > 8]).toEqual([600, true]);
  expect(offered).toEqual(Array.from({ length: 200 }, (_, message) => 3 * message + 1));
  const counted = (table: string) => rowsOf(path, `SELECT route, state, count(*) AS n FROM ${table} GROUP BY route, state`);
  expect(counted("deliveries")).toEqual([{ route: "a", state: settledState.dead, n: 600 }]);
  expect(counted("queue")).toEqual([
    { route: "b", state: queueState.waiting, n: 200 },
    { route: "b", state: queueState.held, n: 400 },
  ]);
});

test("a shutdown ends it between two steps, and reports where to continue", async () => {
  const { store } = await storeWith(1_000);
  let stopping = false;
  const replaying = createReplaying({
    store,
    now: () => start + 10_000,
    isRouted: () => true,
    stopping: () => stopping,
    announce: () => {
      stopping = true;
    },
  });
  const first = await replaying.replay({ route: "a", states: ["dead"] }, null, 10_000);
  expect(first.replayed).toBeLessThan(1_000);
  stopping = false;
  let { next, replayed } = first;
  while (next !== null) {
    stopping = false;
    const step = await replaying.replay({ route: "a", states: ["dead"] }, next, 10_000);
    next = step.next;
    replayed += step.replayed;
  }
  expect(replayed).toBe(1_000);
});
