// Slow: it fills two stores, and one of them is a PostgreSQL.
import { expect, test } from "vitest";
import type { Spread } from "../../bench/report.ts";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is not accepted, or is never delivered.
test.for([
  { args: [], database: "sqlite" },
  { args: ["--postgres", "--open"], database: "postgres" },
])("full measures a store with many events against an empty one on $database", async ({ args, database }) => {
  const { bench, figures, ratios } = await runBench("full.ts", ["--short", ...args]);
  expect(bench).toBe("full");
  expect(figures).toMatchObject({ database, events: 3_000, waiting: 600 });
  for (const step of ["accept", "deliver"]) {
    for (const by of ["wall", "processor"]) expect((ratios[`${step} full/empty by ${by}`] as Spread).median).toBeGreaterThan(0);
  }
  expect(figures["lag"]).toEqual(database === "sqlite" ? null : { withoutGap: expect.any(Number), afterTheEnd: expect.any(Number) });
});
