import { expect, test } from "vitest";
import { auditSchema } from "../../../src/cli/audit/views.ts";

test("what an older relay reports is read too: none of its events is only accepted", () => {
  const sums = {
    received: 1,
    forwarded: 1,
    filtered: 0,
    ignored: 0,
    quarantined: 0,
    parked: 0,
    unaccounted: 0,
    duplicates: 0,
    conflicts: 0,
  };
  const { events, days } = auditSchema.shape;
  expect(events.parse(sums)).toEqual({ ...sums, accepted: 0 });
  expect(days.parse([{ day: "2026-11-22", source: "main", ...sums }])).toMatchObject([{ accepted: 0 }]);
});
