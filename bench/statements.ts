import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import type { EventId, Wamid } from "../src/model/ids.ts";
import { openSqliteStore } from "../src/store/sqlite/open.ts";
import { anEvent, rulesFor } from "../test/contract/store-events.ts";
import { numberFlag, readFlags } from "./flags.ts";
import { describeMachine, lookAtMachine } from "./machine.ts";
import { printResult, round, table } from "./report.ts";

const usage = `What SQLite's statements cost whose values its planner sees (?) and does not see (+?): node bench/statements.ts
  --messages <n>        three events each (10000)
  --calls <n>           measured of each statement and side (20000)
  --short               300 messages and 1000 calls, for CI`;

const flags = readFlags(usage, {
  messages: { type: "string" },
  calls: { type: "string" },
  short: { type: "boolean" },
});
const short = flags.short === true;
const messages = Math.ceil(numberFlag("messages", flags.messages, short ? 300 : 10_000));
const calls = Math.ceil(numberFlag("calls", flags.calls, short ? 1_000 : 20_000));

type Call = readonly [method: "run" | "get" | "all", values: readonly unknown[]];
interface Recorded {
  count: number;
  /** The last few. */
  readonly calls: Call[];
}

const machine = await lookAtMachine();
console.log(describeMachine(machine));
const folder = mkdtempSync(join(tmpdir(), "wamid-relay-statements-"));
const path = join(folder, "relay.db");
const recording = record();
try {
  await work();
  recording.end();
  const measured = measure();
  for (const line of table(
    ["statement", "calls", "as it is, µs", "? µs", "+? µs"],
    measured.map(({ sql, count, own, seen, hidden }) => [
      sql.slice(0, 110),
      String(count),
      String(own),
      String(seen),
      String(hidden),
    ]),
  ))
    console.log(line);
  const perEvent = (side: "own" | "seen") =>
    measured.reduce((sum, each) => sum + (each.count * each[side]) / (3 * messages), 0);
  printResult(
    "statements",
    machine,
    {
      messages,
      statements: measured.length,
      compiledAtEachCall: measured
        .filter((each) => isCompiled(each.sql, each))
        .map(({ sql }) => sql),
      microsPerEvent: { own: round(perEvent("own")), seen: round(perEvent("seen")) },
    },
    {
      "µs per event of all statements, as they are/with ?": round(
        perEvent("own") / perEvent("seen"),
      ),
    },
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}

/** Records the statements of the store and how they are called, until `end`. */
function record() {
  const found = new Map<string, Recorded>();
  const prepare = Database.prototype.prepare;
  Database.prototype.prepare = function (this: Database.Database, sql: string) {
    const statement = prepare.call(this, sql) as Database.Statement<unknown[]>;
    const key = sql.replaceAll(/\s+/g, " ").trim();
    const own = found.get(key) ?? { count: 0, calls: [] };
    found.set(key, own);
    for (const method of ["run", "get", "all"] as const) {
      const call = statement[method].bind(statement) as (...values: unknown[]) => unknown;
      Object.assign(statement, {
        [method]: (...values: unknown[]) => {
          own.count += 1;
          if (own.calls.push([method, values]) > 200) own.calls.shift();
          return call(...values);
        },
      });
    }
    return statement;
  } as typeof prepare;
  return {
    found,
    end(): void {
      Database.prototype.prepare = prepare;
    },
  };
}

/** What a relay does: registers, accepts, tracks, delivers, retries, parks, listens, purges. */
async function work(): Promise<void> {
  const routes = [{ name: "one" }, { name: "two", order: "none" as const }];
  const store = openSqliteStore(path, rulesFor(routes), { committed: () => {}, failed: () => {} });
  const now = Date.now();
  for (let from = 0; from < messages; from += 100) {
    const wamids = Array.from({ length: 100 }, (_, n) => `wamid.${from + n}`);
    // Half of them are registered late, so that their events park.
    const registrations = wamids.map((wamid) => ({
      account: "main",
      wamid: wamid as Wamid,
      reference: `order-${wamid}`,
      id: `id-${wamid}`,
    }));
    await store.registerEach(registrations.slice(50), now);
    for (const status of ["sent", "delivered", "read"]) {
      const events = wamids.map((wamid) =>
        anEvent({ wamid, status, receivedAt: now, errorCode: null }),
      );
      await Promise.all(events.map((event) => store.accept(event)));
      await store.accept(events[0] as (typeof events)[number]);
    }
    await store.registerEach(registrations.slice(0, 50), now);
    await deliver();
    await store.nameRequest(`request-${from}`, `event-${from}` as EventId, now, 60_000);
    await store.claimOnce(`claim-${from}`, now + 60_000);
    await store.moveCursor("cursor", from, now);
    await store.releaseParked(now, 100);
    await store.expireParked(now, 100);
    await store.purge(
      now,
      { events: 1e9, ignored: 1e9, deliveries: 1e9, messages: 1e9, history: 1e9 },
      100,
    );
    await store.forgetSends(now - 1e9, 100);
    store.recentCalls("main");
    (await store.read.listen.page(from, { row: () => true, event: null }))(() => {});
    await store.claimPolls({
      account: "main",
      now,
      dueBy: now,
      after: 0,
      limit: 10,
      leaseMs: 60_000,
    });
    store.findCursor("cursor");
    store.isClaimed(`claim-${from}`);
  }
  await store.close();

  async function deliver(): Promise<void> {
    for (const { name } of routes) {
      for (;;) {
        const { places } = await store.due({ route: name, from: 0, now, limit: 64 });
        const found = await store.load(name, places);
        if (found.length === 0) break;
        await Promise.all(
          found.map((delivery) => {
            const { route, event, eventId, receivedAt, attempts } = delivery;
            const fails = event % 10 === 0;
            const attempt = { number: attempts + 1, at: now, tookMs: 3, response: null };
            return store.settle({
              route,
              delivery,
              event,
              eventId,
              at: now,
              receivedAt,
              attempt: {
                ...attempt,
                result: { kind: "answered", status: fails ? 503 : 200, retryAfterMs: null },
              },
              settled: fails ? { to: "waiting", nextAt: now + 1e6 } : { to: "delivered" },
            });
          }),
        );
      }
    }
  }
}

/** Compiling takes 4 µs or more, and the look-up about one. */
function isCompiled(sql: string, { own, hidden }: { own: number; hidden: number }): boolean {
  return /(?<!\+)[?@]/.test(sql) && own > 3 * hidden && own - hidden > 2;
}

/** Runs the recorded calls again, on all sides in turns, in a transaction that is rolled back. */
function measure() {
  const db = new Database(path);
  db.function("phone_ends", { deterministic: true }, () => 0);
  db.pragma("cache_size = -65536");
  const measured = [];
  for (const [sql, { count, calls: recorded }] of recording.found) {
    if (count < messages / 150 || !/[?@]/.test(sql)) continue;
    const seen = sql.replaceAll(/\+([?@])/g, "$1");
    const sides = { own: sql, seen, hidden: seen.replaceAll(/[?@]/g, "+$&") };
    const took = {
      own: Number.POSITIVE_INFINITY,
      seen: Number.POSITIVE_INFINITY,
      hidden: Number.POSITIVE_INFINITY,
    };
    const all = Object.entries(sides).map(
      ([side, text]) => [side as keyof typeof sides, db.prepare<unknown[]>(text)] as const,
    );
    // On a busy machine, all of ten turns may be slow: more show whether the statement is.
    for (let turn = 0; turn < 10 || (turn < 200 && isCompiled(sql, took)); turn += 1) {
      for (const [side, statement] of all) {
        db.exec("BEGIN");
        const startedAt = performance.now();
        try {
          for (let n = 0; n < calls / 10; n += 1) {
            const [method, values] = recorded[n % recorded.length] as Call;
            if (statement.reader) statement[method === "all" ? "all" : "get"](...values);
            else statement.run(...values);
          }
          // The best of all turns: what else the machine did is in the others.
          took[side] = Math.min(
            took[side],
            ((performance.now() - startedAt) * 1000) / (calls / 10),
          );
        } catch {
          // Such as an insert of what is there: it cannot be repeated.
        }
        db.exec("ROLLBACK");
      }
    }
    if (Number.isFinite(took.own) && Number.isFinite(took.hidden))
      measured.push({
        sql,
        count,
        own: round(took.own),
        seen: round(took.seen),
        hidden: round(took.hidden),
      });
  }
  db.close();
  return measured.sort((a, b) => b.count * (b.own - b.hidden) - a.count * (a.own - a.hidden));
}
