import { expect, test } from "vitest";
import { auditLines, auditSchema } from "../../../src/cli/audit-run.ts";

test("what an older relay proves is read too: it knows of no events that wait to be planned", () => {
  const events = {
    received: 2,
    routed: 2,
    filtered: 0,
    ignored: 0,
    quarantined: 0,
    parked: 0,
    unaccounted: 0,
    duplicates: 1,
    conflicts: 0,
  };
  const deliveries = { planned: 2, waiting: 0, held: 0, delivered: 2, dead: 0, swept: 0, unaccounted: 0 };
  const report = auditSchema.parse({
    balanced: true,
    at: "2026-11-22T00:00:00.000Z",
    tookMs: 1,
    rows: { events: 2, deliveries: 2, attempts: 2 },
    events,
    days: [{ day: "2026-11-22", source: "main", ...events }],
    deliveries,
    routes: [{ route: "all", ...deliveries }],
    gone: { swept: 0, missing: 0 },
    broken: {},
    offenders: [],
  });
  expect(report.events.accepted).toBe(0);
  expect(auditLines(report)[1]).toMatch(/^2026-11-22 +main +2 +2( +0){7} +1 *$/);
});
