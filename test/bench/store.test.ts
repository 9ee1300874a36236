// Slow: it fills and drains three stores.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is not accepted, or a delivery is not settled.
test("store measures the old and the new store through their ports, on both databases", async () => {
  const { bench, figures, ratios } = await runBench("store.ts", ["--short", "--postgres"]);
  expect(bench).toBe("store");
  for (const side of ["old SQLite", "new SQLite", "new PostgreSQL"])
    expect(figures[side]).toMatchObject({ accept: { wall: {} }, settle: { wall: {} } });
  expect(Object.keys(ratios)).toEqual(["wall accept new SQLite, in order/old SQLite", "wall settle new SQLite, in order/old SQLite"]);
});
