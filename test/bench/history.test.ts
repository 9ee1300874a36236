// Slow: it starts two relays and sends events to both.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

test("measures ingest on both sides and their ratio", async () => {
  const { bench, figures, ratios } = await runBench("history.ts", ["--short"]);
  expect(bench).toBe("history");
  expect(Object.keys(figures)).toEqual(["with", "without"]);
  expect(ratios["with/without"]).toMatchObject({ median: expect.any(Number) });
});
