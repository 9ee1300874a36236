// Slow: it measures two relays one after the other in one run.
import { expect, test } from "vitest";
import type { Spread } from "../../bench/report.ts";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is not acknowledged with 200 or never comes out.
test("delivery measures both relays in one run and sees every event come out", async () => {
  const { bench, machine, figures, ratios } = await runBench("delivery.ts", ["--short"]);
  expect(bench).toBe("delivery");
  expect(machine.cores).toBeGreaterThan(0);
  expect(machine.syncMs.p50).toBeGreaterThan(0);
  expect(Object.keys(figures)).toEqual(["bare", "relay"]);
  for (const side of ["bare", "relay"]) {
    const { perSecond, p50, p99 } = figures[side] as { perSecond: Spread; p50: Spread; p99: Spread };
    expect(perSecond.median, side).toBeGreaterThan(0);
    expect(p50.median, side).toBeGreaterThan(0);
    expect(p99.median, side).toBeGreaterThanOrEqual(p50.median);
  }
  expect((ratios["relay/bare"] as Spread).median).toBeGreaterThan(0);
});
