// Slow: it starts a relay on a filled file, and measures for seconds.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

test("measures what others wait while the overview of many routes is read", async () => {
  const { bench, figures, ratios } = await runBench("overview.ts", ["--short"]);
  expect(bench).toBe("overview");
  expect(figures).toMatchObject({ routes: 200, cells: 61 * 1200, maxMs: { reading: { median: expect.any(Number) } } });
  expect(ratios["p99 of /healthz reading/quiet"]).toMatchObject({ median: expect.any(Number) });
});
