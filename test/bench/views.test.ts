// Slow: it builds a file of thousands of events and opens each view of the console in Chromium.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

test("views opens each view in Chromium and follows a burst", async () => {
  const { bench, figures } = await runBench("views.ts", ["--short"]);
  expect(bench).toBe("views");
  const { viewP95Ms, longestTaskMs } = figures as { viewP95Ms: Record<string, number>; longestTaskMs: number };
  expect(Object.keys(viewP95Ms)).toHaveLength(12);
  for (const [view, milliseconds] of Object.entries(viewP95Ms)) expect(milliseconds, view).toBeGreaterThan(0);
  expect(longestTaskMs).toBeGreaterThanOrEqual(0);
});
