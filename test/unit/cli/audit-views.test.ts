import { expect, test } from "vitest";
import { auditLines } from "../../../src/cli/audit.ts";
import type { AnswerOf } from "../../../src/client/relay-client.ts";

test("prints a row for each day and source, and the sums of all", () => {
  const events = {
    received: 2,
    routed: 2,
    filtered: 0,
    ignored: 0,
    quarantined: 0,
    parked: 0,
    released: 0,
    unassigned: 0,
    unaccounted: 0,
    duplicates: 1,
    conflicts: 0,
  };
  const deliveries = {
    planned: 2,
    waiting: 0,
    held: 0,
    delivered: 2,
    dead: 0,
    deleted: 0,
    unaccounted: 0,
  };
  const report: AnswerOf<"audit"> = {
    balanced: true,
    at: "2026-11-22T00:00:00.000Z",
    tookMs: 1,
    rows: { events: 2, deliveries: 2, attempts: 2 },
    events,
    days: [{ day: "2026-11-22", source: "main", ...events }],
    deliveries,
    routes: [{ route: "all", ...deliveries }],
    gone: { deleted: 0, missing: 0 },
    broken: {},
    offenders: [],
  };
  expect(auditLines(report)[1]).toMatch(/^2026-11-22 +main +2 +2( +0){7} +1 +0$/);
  expect(auditLines(report)[2]).toMatch(/^all +2 +2( +0){7} +1 +0$/);
});
