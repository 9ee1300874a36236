// Slow: it starts relays under V8 coverage on both engines.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

test("event-path counts the files that one webhook passes through on both engines", async () => {
  const { bench, figures, ratios } = await runBench("event-path.ts", ["--short"]);
  expect(bench).toBe("event-path");
  const { embedded, redis } = figures as { embedded: number; redis: number };
  // Fewer than twenty would mean that the event was not observed.
  for (const files of [embedded, redis]) expect(files).toBeGreaterThan(20);
  expect(embedded).toBeLessThan(60);
  expect(redis).toBeLessThan(70);
  expect(ratios["redis/embedded"]).toEqual(expect.any(Number));
});
