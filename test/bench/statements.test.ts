// Slow: it runs the store and then measures each of its statements.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

test("no statement that a relay runs again and again is compiled at each call", async () => {
  const { bench, figures, ratios } = await runBench("statements.ts", ["--short"]);
  expect(bench).toBe("statements");
  expect(figures).toMatchObject({ statements: expect.any(Number), compiledAtEachCall: [] });
  expect(ratios["µs per event of all statements, as they are/with ?"]).toBeLessThan(1);
});
