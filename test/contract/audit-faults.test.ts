import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type AuditReport, type AuditRule, auditRules } from "../../src/model/audit.ts";
import { audit } from "../../src/store/audit/audit.ts";
import { stats } from "../../src/store/read/stats.ts";
import { rows } from "../../src/store/sql/ops.ts";
import { raw, sql } from "../../src/store/sql/sql.ts";
import {
  type OneStore,
  type OpenStore,
  openPostgres,
  openSqlite,
  settlementOf,
} from "./one-store.ts";
import { anEvent, rulesFor, start, unreadable } from "./store-events.ts";

const routes = [
  { name: "all", match: { events: ["message.*"] } },
  { name: "ours", match: { tracked: true } },
];

/**
 * 1 to 3 of one message, on route `all` delivered, dead, waiting; on `ours` 4 to 6 of a registered
 * one, the first waiting and the others held; 7 parked; 8 filtered; 9 quarantined; 10 the newest.
 */
async function aStore(open: OpenStore): Promise<OneStore> {
  const store = await open(rulesFor(routes));
  const acceptAll = async (wamid: string) => {
    for (const status of ["sent", "delivered", "read"])
      await store.accept([anEvent({ wamid, status })]);
  };
  await acceptAll("w1");
  await store.register([{ account: "main", wamid: "w2" }], start);
  await acceptAll("w2");
  await store.accept([anEvent({ wamid: "w3" }), anEvent({ event: "account.note" })]);
  await store.send(({ quarantine }) => quarantine, [unreadable(anEvent())]);
  await store.accept([anEvent({ wamid: "w4", receivedAt: start + 1 })]);
  for (const [event, to] of [
    [1, "waiting"],
    [1, "delivered"],
    [2, "dead"],
  ] as const) {
    const delivery = (await store.due("all", start + 1_000)).find((one) => one.event === event);
    if (delivery !== undefined) await store.settle([settlementOf(delivery, to, start)]);
  }
  return store;
}

const undo = new Error("the damage is undone");

/** The report on a damaged store, which is then as before. */
async function auditDamaged(
  store: OneStore,
  damage: readonly string[],
  mostOffenders = 100,
): Promise<AuditReport> {
  let report: AuditReport | null = null;
  const damaged = store.run(function* () {
    for (const statement of damage) yield* rows(sql`${raw(statement)}`);
    report = yield* audit({ now: start, isRunning: false, mostOffenders }, () => {});
    throw undo;
  });
  await expect(damaged).rejects.toBe(undo);
  return report as unknown as AuditReport;
}

/** Damage, the rule that it breaks, and which event and route break it. */
type Fault = [damage: string, rule: AuditRule, event: number | null, route: string | null];
const queued =
  "INSERT INTO queue (lane, route, event, account, state, next_at, attempts, spent, replays) VALUES";
const settled =
  "INSERT INTO deliveries (event, route, account, lane, state, attempts, spent, replays, settled_at, reason) VALUES";
const tried = "INSERT INTO attempts (event, route, number, at, took_ms) VALUES";
const lane = (event: number) => `(SELECT subject FROM events WHERE seq = ${event})`;
const faults: readonly Fault[] = [
  ["DELETE FROM queue WHERE event = 3 AND route = 'all'", "delivery missing", 3, "all"],
  ["DELETE FROM deliveries WHERE event = 1", "delivery missing", 1, "all"],
  ["UPDATE queue SET lane = 77 WHERE event = 3 AND route = 'all'", "delivery missing", 3, "all"],
  [`${queued} (-8, 'all', 8, 'main', 0, 1, 0, 0, 0)`, "delivery not planned", 8, "all"],
  [`${queued} (-9, 'all', 9, 'main', 0, 1, 0, 0, 0)`, "delivery not planned", 9, "all"],
  [`${settled} (8, 'all', 'main', -8, 1, 0, 0, 0, 1, 'left')`, "delivery not planned", 8, "all"],
  [
    "UPDATE queue SET state = 0, next_at = 1 WHERE event = 7 AND route = 'ours'",
    "delivery not planned",
    7,
    "ours",
  ],
  [`${queued} (-99, 'all', 99, 'main', 0, 1, 0, 0, 0)`, "delivery without event", 99, "all"],
  [
    `${settled} (99, 'all', 'main', -99, 1, 0, 0, 0, 1, 'left')`,
    "delivery without event",
    99,
    "all",
  ],
  ["DELETE FROM events WHERE seq = 1", "delivery without event", 1, "all"],
  ["UPDATE events SET disposition = 1 WHERE seq = 1", "wrong disposition", 1, null],
  ["UPDATE events SET disposition = 2 WHERE seq = 8", "wrong disposition", 8, null],
  ["UPDATE events SET kind = 'some' WHERE seq = 9", "wrong disposition", 9, null],
  ["UPDATE events SET release = 3 WHERE seq = 9", "wrong disposition", 9, null],
  ["UPDATE events SET disposition = 0 WHERE seq = 9", "event without plan", 9, null],
  ["UPDATE events SET plan = 4711 WHERE seq = 4", "event without plan", 4, null],
  ["UPDATE events SET previous_status = 'read' WHERE seq = 5", "status moved back", 5, null],
  [
    "UPDATE queue SET next_at = 9007199254740991 WHERE event = 7 AND route = 'ours'",
    "parking broken",
    7,
    null,
  ],
  ["DELETE FROM queue WHERE event = 7 AND route = 'ours'", "parking broken", 7, null],
  [`${queued} (-8, 'all', 8, 'main', 2, 1, 0, 0, 0)`, "parking broken", 8, null],
  [
    `UPDATE queue SET next_at = ${start - 600_000} WHERE event = 7 AND route = 'ours'`,
    "parked too long",
    7,
    null,
  ],
  [
    "UPDATE queue SET next_at = 9007199254740991 WHERE event = 3 AND route = 'all'",
    "delivery contradicts itself",
    3,
    "all",
  ],
  [
    "UPDATE queue SET state = 9 WHERE event = 3 AND route = 'all'",
    "delivery contradicts itself",
    3,
    "all",
  ],
  [
    "UPDATE queue SET state = 2 WHERE event = 3 AND route = 'all'",
    "delivery contradicts itself",
    3,
    "all",
  ],
  [
    "UPDATE queue SET next_at = 1 WHERE event = 5 AND route = 'ours'",
    "delivery contradicts itself",
    5,
    "ours",
  ],
  [
    "UPDATE queue SET lane = -5 WHERE event = 5 AND route = 'ours'",
    "delivery contradicts itself",
    5,
    "ours",
  ],
  [
    "UPDATE queue SET lane = 77 WHERE event = 3 AND route = 'all'",
    "delivery contradicts itself",
    3,
    "all",
  ],
  [`${queued} (-3, 'all', 3, 'main', 0, 1, 0, 0, 0)`, "delivery contradicts itself", 3, "all"],
  [
    `${queued} (${lane(1)}, 'all', 1, 'main', 1, 9007199254740991, 0, 0, 0)`,
    "delivery contradicts itself",
    1,
    "all",
  ],
  ["UPDATE deliveries SET state = 9 WHERE event = 2", "delivery contradicts itself", 2, "all"],
  ["UPDATE deliveries SET reason = NULL WHERE event = 2", "delivery contradicts itself", 2, "all"],
  ["UPDATE deliveries SET attempts = 0 WHERE event = 1", "delivery contradicts itself", 1, "all"],
  ["UPDATE deliveries SET lane = 77 WHERE event = 1", "delivery contradicts itself", 1, "all"],
  ["DELETE FROM attempts WHERE event = 1", "attempts miscounted", 1, "all"],
  ["UPDATE deliveries SET at = NULL WHERE event = 2", "attempts miscounted", 2, "all"],
  [
    "UPDATE queue SET attempts = 2 WHERE event = 3 AND route = 'all'",
    "attempts miscounted",
    3,
    "all",
  ],
  [`${tried} (3, 'all', 1, 0, 0)`, "attempts miscounted", 3, "all"],
  [`${tried} (8, 'all', 1, 0, 0)`, "attempt without delivery", 8, "all"],
  [`${tried} (99, 'all', 1, 0, 0)`, "attempt without delivery", 99, "all"],
  [
    "UPDATE queue SET state = 1, next_at = 9007199254740991 WHERE event = 4 AND route = 'ours'",
    "order broken",
    4,
    "ours",
  ],
  [
    "UPDATE queue SET state = 0, next_at = 1 WHERE event = 5 AND route = 'ours'",
    "order broken",
    4,
    "ours",
  ],
  [
    "DROP INDEX events_id; UPDATE events SET id = (SELECT id FROM events WHERE seq = 4) WHERE seq = 5",
    "id repeated",
    5,
    null,
  ],
  ["DROP INDEX events_id", "id repeated", null, null],
  ["UPDATE counters SET n = 9 WHERE series = 'secret'", "secret usage differs", null, null],
  ["UPDATE counters SET n = 11 WHERE series = 'secret'", "secret usage differs", null, null],
  ["DELETE FROM counters WHERE at > 0", "history differs", null, null],
  ["DELETE FROM events WHERE seq = 8", "history differs", null, null],
  [
    "INSERT INTO counters VALUES (-60, 'main', 'events', 'main', 'routed', '', 1)",
    "history differs",
    null,
    null,
  ],
  ...["events", "transitions", "attempts"].map(
    (series): Fault => [
      `UPDATE counters SET n = n + 1 WHERE series = '${series}'`,
      "history differs",
      null,
      null,
    ],
  ),
];

/** Without a sound delivery or event that could be counted. */
const uncounted: readonly AuditRule[] = [
  "attempt without delivery",
  "delivery without event",
  "id repeated",
  "order broken",
];

describe.each([
  ["SQLite", openSqlite],
  ["PostgreSQL", openPostgres(18)],
] as const)("the audit on %s", (database, open) => {
  let store: OneStore;
  beforeAll(async () => {
    store = await aStore(open);
  });
  afterAll(() => store[Symbol.asyncDispose]());

  test("finds a sound store balanced, and counts its rows", async () => {
    expect(await auditDamaged(store, [])).toMatchObject({
      balanced: true,
      offenders: [],
      events: { received: 10, routed: 8, filtered: 1, quarantined: 1, unaccounted: 0 },
      deliveries: {
        planned: 11,
        waiting: 5,
        held: 4,
        delivered: 1,
        dead: 1,
        deleted: 0,
        unaccounted: 0,
      },
      rows: { events: 10, deliveries: 11, attempts: 3 },
      gone: { deleted: 0, missing: 0 },
    });
    expect(await store.read(stats())).toMatchObject({
      dispositions: { routed: 8, filtered: 1, quarantined: 1 },
      deliveries: { waiting: 5, held: 4, delivered: 1, dead: 1 },
      attempts: { made: 3, failed: 2 },
    });
  });

  test.each(faults)("%s: %s", async (damage, rule, event, route) => {
    const report = await auditDamaged(store, damage.split("; "));
    expect(report.balanced).toBe(false);
    expect(report.offenders).toContainEqual(expect.objectContaining({ rule, event, route }));
    expect(report.broken[rule]).toBeGreaterThanOrEqual(1);
    const isOfQueue = damage.startsWith("INSERT INTO queue");
    if (event !== null && !isOfQueue && !uncounted.includes(rule))
      expect(report.events.unaccounted + report.deliveries.unaccounted).toBeGreaterThan(0);
  });

  test("reports a missing event by its number where no number is left out", async () => {
    const { offenders, gone } = await auditDamaged(store, ["DELETE FROM events WHERE seq = 8"]);
    const missing = offenders.filter(({ rule }) => rule === "event missing");
    expect(missing).toMatchObject(database === "SQLite" ? [{ event: 8 }] : []);
    expect(gone).toEqual({ deleted: 0, missing: missing.length });
  });

  test("there is damage for every rule", () => {
    // Numbers have a test of their own.
    const rules = Object.keys(auditRules).filter((rule) => rule !== "event missing");
    expect([...new Set(faults.map(([, rule]) => rule))].toSorted()).toEqual(rules.toSorted());
  });

  test("what retention may have deleted breaks no rule, and is counted", async () => {
    const purged = (what: string) =>
      `INSERT INTO state VALUES ('purged/${what}', '${start + 3_600_000}', 1, NULL)`;
    const report = await auditDamaged(store, [
      purged("events"),
      purged("deliveries"),
      ...[
        "DELETE FROM events WHERE seq = 8",
        "DELETE FROM attempts WHERE event = 1",
        "DELETE FROM deliveries WHERE event = 1",
      ],
    ]);
    expect(report).toMatchObject({
      balanced: true,
      offenders: [],
      gone: { deleted: 1, missing: 0 },
      deliveries: { deleted: 1 },
    });
  });

  test("adds the hours of the history to its minutes", async () => {
    const report = await auditDamaged(store, [
      "UPDATE counters SET at = -(at / 60 * 60) WHERE at > 0 AND series <> 'events'",
    ]);
    expect(report.offenders).toEqual([]);
  });

  test("names the first offenders with their ids, and counts the others", async () => {
    const report = await auditDamaged(
      store,
      ["UPDATE events SET disposition = 1 WHERE disposition = 0"],
      2,
    );
    expect([report.offenders.length, report.broken]).toEqual([
      2,
      { "wrong disposition": 8, "history differs": 2 },
    ]);
    expect(report.offenders[0]).toMatchObject({
      event: 1,
      eventId: expect.stringMatching(/^event-\d+$/),
    });
  });
});
