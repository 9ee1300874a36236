import Database from "better-sqlite3";
import { expect, onTestFinished, test } from "vitest";
import { type AuditRule, auditRules } from "../../../src/model/audit.ts";
import { runAudit } from "../../../src/store/sqlite/audit.ts";
import { openForReading } from "../../../src/store/sqlite/file.ts";
import { accept, dead, delivered, settle } from "../../contract/contract-tools.ts";
import { openSqliteSubject } from "../../contract/sqlite-subject.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { auditFile } from "../../harness/audit-file.ts";

const routes = [
  { name: "all", match: { events: ["message.*"] } },
  { name: "ours", match: { tracked: true } },
];

/**
 * The file of a store: 1 to 3 of one message, on route `all` (number 6) delivered, dead, waiting; on `ours` (5) 4 to 6 of a
 * registered one, the first waiting and the others held; 7 parked; 8 filtered; 9 quarantined; 10 the newest.
 */
async function aStore(): Promise<string> {
  const subject = await openSqliteSubject(rulesFor(routes));
  onTestFinished(() => subject.end());
  const { store } = subject;
  for (const status of ["sent", "delivered", "read"]) await accept(store, { wamid: "w1", status });
  await store.register([{ account: "main", wamid: "w2" }], start);
  for (const status of ["sent", "delivered", "read"]) await accept(store, { wamid: "w2", status });
  await accept(store, { wamid: "w3" });
  await accept(store, { event: "account.note" });
  const { account, source, origin, headers, secret } = anEvent();
  await store.quarantine({ account, source, origin, headers, secret, receivedAt: start, error: "no", body: Buffer.from("{}") });
  await accept(store, { wamid: "w4", receivedAt: start + 1 });
  await settle(store, "all", 1, delivered);
  await settle(store, "all", 2, dead);
  expect(auditFile(subject.path, { now: start }).offenders).toEqual([]);
  return subject.path;
}

const route = (name: string) => `(SELECT id FROM names WHERE kind = 'route' AND name = '${name}')`;

/** A damage done by hand, the rule that it breaks, and who breaks it: event and route. */
type Fault = [damage: string, rule: AuditRule, event: number | null, route: string | null];
const faults: readonly Fault[] = [
  [`DELETE FROM deliveries WHERE event = 3 AND route = ${route("all")}`, "delivery missing", 3, "all"],
  [`UPDATE deliveries SET event = 8 WHERE event = 3 AND route = ${route("all")}`, "delivery not planned", 8, "all"],
  [
    `INSERT INTO deliveries SELECT 99, route, state, subject, next_at, 0, 0, 0, NULL, NULL, NULL FROM deliveries WHERE event = 3`,
    "delivery without event",
    99,
    "all",
  ],
  ["UPDATE events SET disposition = 1 WHERE seq = 1", "wrong disposition", 1, null],
  ["UPDATE events SET disposition = 2 WHERE seq = 8", "wrong disposition", 8, null],
  ["UPDATE events SET disposition = 0 WHERE seq = 9", "event without plan", 9, null],
  ["UPDATE events SET id = 'some', kind = 1 WHERE seq = 9", "wrong disposition", 9, null],
  ["UPDATE events SET plan = 4711 WHERE seq = 4", "event without plan", 4, null],
  ["UPDATE events SET parked_until = NULL WHERE seq = 7", "parking broken", 7, null],
  [`UPDATE events SET parked_until = ${start} WHERE seq = 8`, "parking broken", 8, null],
  [`UPDATE events SET parked_until = ${start - 600_000} WHERE seq = 7`, "parked too long", 7, null],
  ["DELETE FROM events WHERE seq = 8", "event missing", 8, null],
  ["DELETE FROM events WHERE seq = 1", "delivery without event", 1, "all"],
  [`UPDATE deliveries SET state = 2 WHERE event = 3 AND route = ${route("all")}`, "delivery contradicts itself", 3, "all"],
  [`UPDATE deliveries SET next_at = NULL WHERE event = 3 AND route = ${route("all")}`, "delivery contradicts itself", 3, "all"],
  [`UPDATE deliveries SET state = 9 WHERE event = 2 AND route = ${route("all")}`, "delivery contradicts itself", 2, "all"],
  ["DELETE FROM attempts WHERE event = 1", "attempts miscounted", 1, "all"],
  [`UPDATE deliveries SET attempts = 2 WHERE event = 1`, "attempts miscounted", 1, "all"],
  [`INSERT INTO attempts (event, route, number, at, took_ms) VALUES (8, ${route("all")}, 1, 0, 0)`, "attempt without delivery", 8, "all"],
  [`UPDATE deliveries SET state = 1, next_at = NULL WHERE event = 4 AND route = ${route("ours")}`, "order broken", 4, "ours"],
  [`UPDATE deliveries SET state = 0, next_at = 1 WHERE event = 5 AND route = ${route("ours")}`, "order broken", 4, "ours"],
  ["DROP INDEX events_by_id; UPDATE events SET id = (SELECT id FROM events WHERE seq = 4) WHERE seq = 5", "id repeated", 5, null],
  ["DROP INDEX events_by_id", "id repeated", null, null],
  ["UPDATE secret_uses SET events = 9", "secret usage differs", null, null],
  ["UPDATE secret_uses SET events = 11", "secret usage differs", null, null],
  ["DELETE FROM history_minutes", "history differs", null, null],
  ...["events", "transitions", "attempts"].map(
    (series): Fault => [
      `UPDATE history_minutes SET n = n + 1 WHERE counter = (SELECT min(id) FROM history_names WHERE series = '${series}')`,
      "history differs",
      null,
      null,
    ],
  ),
];

test.each(faults)("%s: %s", async (damage, rule, event, on) => {
  const path = await aStore();
  const db = new Database(path);
  db.exec(damage);
  db.close();
  const report = auditFile(path, { now: start });
  expect(report.balanced).toBe(false);
  expect(report.offenders).toContainEqual(expect.objectContaining({ rule, event, route: on }));
  expect(report.broken[rule]).toBeGreaterThanOrEqual(1);
  if (
    event !== null &&
    rule !== "event missing" &&
    rule !== "attempt without delivery" &&
    rule !== "order broken" &&
    rule !== "id repeated"
  ) {
    expect(report.events.unaccounted + report.deliveries.unaccounted + (rule === "delivery without event" ? 1 : 0)).toBeGreaterThan(0);
  }
});

test("there is a damage for every rule", () => {
  // In a file nothing waits to be planned; redis/unplanned.test.ts has the damages of what does.
  // The next engine alone checks statuses.
  const rules = Object.keys(auditRules).filter((rule) => rule !== "planning broken" && rule !== "status moved back");
  expect([...new Set(faults.map(([, rule]) => rule))].toSorted()).toEqual(rules.toSorted());
});

test("what retention may have taken is no offence, and is counted", async () => {
  const path = await aStore();
  const db = new Database(path);
  db.exec(`INSERT INTO meta VALUES ('swept events', '${start + 1}'), ('swept deliveries', '${start + 1}')`);
  db.exec(`DELETE FROM events WHERE seq = 8; DELETE FROM attempts WHERE event = 1; DELETE FROM deliveries WHERE event = 1`);
  db.close();
  const report = auditFile(path, { now: start });
  expect(report).toMatchObject({ balanced: true, offenders: [], gone: { deleted: 1, missing: 0 }, deliveries: { deleted: 1 } });
});

test("offenders beyond the first ones are counted and not named", async () => {
  const path = await aStore();
  const db = new Database(path);
  db.exec("UPDATE events SET disposition = 1 WHERE disposition = 0");
  db.close();
  const report = auditFile(path, { now: start, mostOffenders: 2 });
  expect([report.offenders.length, report.broken]).toEqual([2, { "wrong disposition": 8, "history differs": 2 }]);
});

test("history that changes during an audit is not compared, even when two changes cancel out", async () => {
  const subject = await openSqliteSubject(rulesFor(routes));
  onTestFinished(() => subject.end());
  const { store } = subject;
  await accept(store, { wamid: "w1" });
  const db = openForReading(subject.path);
  onTestFinished(() => void db.close());
  const audit = runAudit(db, { now: start, isRunning: false, mostOffenders: 10 });
  expect(audit.next().done).toBe(false);
  // The first event is counted as parked. It leaves that count, and another one takes its place.
  await store.register([{ account: "main", wamid: "w1" }], start);
  await accept(store, { wamid: "w2" });
  let step = audit.next();
  while (step.done !== true) step = audit.next();
  expect(step.value.offenders).toEqual([]);
  expect(auditFile(subject.path, { now: start }).offenders).toEqual([]);
});
