// Slow: it weighs Redis before and after thousands of events.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when an event is not stored, not planned, or not delivered and settled.
test("redis-size measures an event that is accepted, planned and delivered, and a message", async () => {
  const { bench, figures, ratios } = await runBench("redis-size.ts", ["--short"]);
  expect(bench).toBe("redis-size");
  const { memoryBytes, aofBytesPerEvent, redisMicroseconds, bodyBytes } = figures as Record<string, Record<string, number>> & {
    bodyBytes: number;
  };
  for (const [what, bytes] of Object.entries({ ...memoryBytes })) {
    expect(bytes, what).toBeGreaterThan(50);
    expect(bytes, what).toBeLessThan(4000);
  }
  expect(memoryBytes?.["event"]).toBeGreaterThan(bodyBytes);
  expect(memoryBytes?.["acceptedEvent"]).toBeGreaterThan(bodyBytes);
  expect(aofBytesPerEvent?.["writtenByAccepting"]).toBeGreaterThan(bodyBytes);
  for (const [what, bytes] of Object.entries({ ...aofBytesPerEvent })) expect(bytes, what).toBeGreaterThan(50);
  for (const [what, microseconds] of Object.entries({ ...redisMicroseconds })) expect(microseconds, what).toBeGreaterThan(0);
  expect(ratios["aof at rest/memory"]).toBeGreaterThan(0.1);
});
