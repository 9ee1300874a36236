// Slow: it fills and drains three stores.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is not accepted, or a delivery is not settled.
test("store measures the store through its port on both databases", async () => {
  const { bench, figures, ratios } = await runBench("store.ts", ["--short", "--postgres"]);
  expect(bench).toBe("store");
  for (const side of ["SQLite engine, in order", "SQLite", "SQLite, 1,000 in one turn", "PostgreSQL"])
    expect(figures[side]).toMatchObject({ accept: { wall: {} }, settle: { wall: {} } });
  expect(Object.keys(ratios)).toEqual([
    "wall accept SQLite, 1,000 in one turn/SQLite",
    "wall settle SQLite, 1,000 in one turn/SQLite",
    "wall accept SQLite engine, in order/SQLite, in order",
    "wall settle SQLite engine, in order/SQLite, in order",
  ]);
});
