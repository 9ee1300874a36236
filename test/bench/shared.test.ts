// Slow: it starts a PostgreSQL, a relay and a destination for each measurement.
import { expect, test } from "vitest";
import type { Spread } from "../../bench/report.ts";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event does not arrive.
test("shared measures from received to delivered on PostgreSQL beside SQLite, and what the database costs", async () => {
  const { bench, figures, ratios } = await runBench("shared.ts", ["--short", "--sqlite"]);
  expect(bench).toBe("shared");
  const sides = figures as Record<string, { perSecond: Spread; relay: Spread; database: Spread }>;
  expect(Object.keys(sides)).toEqual(["postgres", "sqlite"]);
  for (const [name, { perSecond, relay, database }] of Object.entries(sides)) {
    expect(perSecond.median, name).toBeGreaterThan(0);
    expect(relay.median, name).toBeGreaterThanOrEqual(0);
    expect(database.median, name).toBeGreaterThanOrEqual(0);
  }
  expect((ratios["postgres/sqlite"] as Spread).median).toBeGreaterThan(0);
});
