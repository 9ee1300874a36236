// Slow: it starts a relay and posts thousands of statuses.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when a request is not answered with all of its events.
test("batches compares requests of one status with requests of many", async () => {
  const { bench, figures, ratios } = await runBench("batches.ts", ["--short"]);
  expect(bench).toBe("batches");
  expect(Object.keys(figures)).toEqual([
    ...["sqlite 1", "sqlite 10", "sqlite 100", "sqlite 1000"],
    ...["sqlite 1000 beside the other", "sqlite 1 beside the other"],
    "SQLite alone, ms",
  ]);
  expect(ratios["sqlite: 1,000 acknowledged/SQLite alone"]).toMatchObject({ median: expect.any(Number) });
  expect(ratios["sqlite: µs in 100/alone"]).toMatchObject({ median: expect.any(Number) });
});
