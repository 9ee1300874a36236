// Slow: it starts a relay under V8 coverage.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

test("event-path counts the files that one webhook passes through", async () => {
  const { bench, figures } = await runBench("event-path.ts", ["--short"]);
  expect(bench).toBe("event-path");
  const { files } = figures as { files: number };
  // Fewer than twenty would mean that the event was not observed.
  expect(files).toBeGreaterThan(20);
  expect(files).toBeLessThan(50);
});
