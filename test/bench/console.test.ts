// Slow: it builds a file of thousands of events and offers load.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is not acknowledged, or a page gets another answer than its data.
test("console measures every page and the acknowledgements beside a console", async () => {
  const { bench, figures, ratios } = await runBench("console.ts", ["--short"]);
  expect(bench).toBe("console");
  const { pageP95Ms } = figures as { pageP95Ms: Record<string, number> };
  expect(Object.keys(pageP95Ms).length).toBeGreaterThan(10);
  for (const [page, milliseconds] of Object.entries(pageP95Ms)) expect(milliseconds, page).toBeGreaterThan(0);
  expect(ratios["p99 at 500/s console/quiet"]).toMatchObject({ median: expect.any(Number) });
});
