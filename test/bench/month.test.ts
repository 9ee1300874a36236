// Slow: it starts a PostgreSQL and waits for some thousand transactions.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is not accepted.
test("month measures the tables and indexes over days with retention and an outage", async () => {
  const { bench, figures, ratios } = await runBench("month.ts", ["--short"]);
  expect(bench).toBe("month");
  expect(figures).toMatchObject({ accepted: 960, ignored: 96, delivered: 855, dead: 9, mostWaiting: 54 });
  const { bytes } = figures as { bytes: Record<string, Record<string, number>> };
  for (const day of ["day 7", "day 16"]) expect(bytes[day]).toMatchObject({ events: expect.any(Number), queue_due: expect.any(Number) });
  expect(ratios["day 16/day 7"]).toBeGreaterThan(0);
});
