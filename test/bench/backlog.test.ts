// Slow: it fills, kills, restarts and drains a relay.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is missing after the kill, or is never delivered.
test("backlog fills, kills, restarts and drains, and loses nothing", async () => {
  const { bench, figures, ratios } = await runBench("backlog.ts", ["--short"]);
  expect(bench).toBe("backlog");
  expect(figures).toMatchObject({ deliveries: 2000, drain: { repeats: expect.any(Number) } });
  const { readyAfterKillMs, residentMiB, diskBytesPerEvent, drain } = figures as {
    readyAfterKillMs: number;
    residentMiB: Record<string, number>;
    diskBytesPerEvent: Record<string, number>;
    drain: { perSecond: number };
  };
  expect(readyAfterKillMs).toBeGreaterThan(10);
  expect(readyAfterKillMs).toBeLessThan(100_000);
  for (const [when, mib] of Object.entries(residentMiB)) {
    expect(mib, when).toBeGreaterThan(20);
    expect(mib, when).toBeLessThan(500);
  }
  // No less than the body itself, or something was not kept.
  expect(diskBytesPerEvent["waiting"]).toBeGreaterThan(figures["bodyBytes"] as number);
  expect(drain.perSecond).toBeGreaterThan(0);
  expect(ratios["ingest end/start"]).toBeGreaterThan(0);
});
