// Slow: it starts a PostgreSQL for each number of routes.
import { expect, test } from "vitest";
import type { Spread } from "../../bench/report.ts";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is lost, accepted twice, or never delivered.
test("processes measures two receivers and two workers on one PostgreSQL", async () => {
  const { bench, figures } = await runBench("processes.ts", ["--short"]);
  expect(bench).toBe("processes");
  const sides = figures as Record<string, { perSecond: Spread; database: Spread; conflictsPerBatch: Spread }>;
  for (const name of ["one", "eight"]) {
    expect(sides[name]?.perSecond.median, name).toBeGreaterThan(0);
    expect(sides[name]?.database.median, name).toBeGreaterThan(0);
    expect(sides[name]?.conflictsPerBatch.median, name).toBeGreaterThanOrEqual(0);
  }
});
