// Slow: it builds a file of events and audits it while a relay receives.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an audit's sums do not match, or an event is not acknowledged.
test("audit builds a file, and audits and counts it beside a relay that receives", async () => {
  const { bench, figures, ratios } = await runBench("audit.ts", ["--short"]);
  expect(bench).toBe("audit");
  expect(figures).toMatchObject({ file: { events: 50_000 }, statsMs: expect.any(Number) });
  const { audit } = figures as { audit: { rowsPerSecond: number; eventsPerSecond: number } };
  expect(audit.eventsPerSecond).toBeGreaterThan(0);
  expect(audit.rowsPerSecond).toBeGreaterThan(2 * audit.eventsPerSecond);
  expect(ratios["p99 at 500/s audit/quiet"]).toMatchObject({ median: expect.any(Number) });
});
