// Slow: it starts a Redis and several processes for each measurement.
import { expect, test } from "vitest";
import type { Spread } from "../../bench/report.ts";
import { runBench } from "./run-bench.ts";

type Part = Record<"workers" | "redis" | "sink", Spread>;

// The bench itself fails when an event is not planned, or does not arrive.
test("scale drains by one worker, one that plans as well, a hand-written one and several, and sees every event arrive", async () => {
  const { bench, figures, ratios } = await runBench("scale.ts", ["--short"]);
  expect(bench).toBe("scale");
  const { drained, paced } = figures as {
    drained: Record<string, { perSecond: Spread; warmPerSecond: Spread; cores: Part; micros: Part }>;
    paced: { p50: Spread; p99: Spread };
  };
  expect(Object.keys(drained)).toEqual(["1 relay", "1 relay+planning", "1 bullmq", "2 relay, 20 ms"]);
  for (const [name, { perSecond, warmPerSecond, micros }] of Object.entries(drained)) {
    expect(perSecond.median, name).toBeGreaterThan(0);
    expect(warmPerSecond.median, name).toBeGreaterThan(0);
    // The system counts in steps of 10 ms, and a part of so short a run may take less.
    for (const part of ["workers", "redis", "sink"] as const) expect(micros[part].median, `${name} ${part}`).toBeGreaterThanOrEqual(0);
  }
  expect(paced.p99.median).toBeGreaterThanOrEqual(paced.p50.median);
  for (const ratio of ["relay/bullmq", "relay+planning/bullmq"]) expect((ratios[ratio] as Spread).median, ratio).toBeGreaterThan(0);
});
