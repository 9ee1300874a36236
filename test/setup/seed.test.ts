import fc from "fast-check";
import { expect, test } from "vitest";
import { repeatLines } from "./closing-line.ts";
import { testSeed } from "./seed.ts";

test("every property of a run has the run's seed", async () => {
  expect(fc.readConfigureGlobal().seed).toBe(testSeed);
  const draw = () => fc.sample(fc.integer(), 20);
  expect(draw()).toEqual(draw());
  const details = await fc.check(fc.asyncProperty(fc.nat(), async () => false));
  expect([details.failed, details.seed]).toEqual([true, testSeed]);
});

test("a failure ends with the command that repeats it, one for each file", () => {
  expect(repeatLines(["test/a.test.ts", "test/b.test.ts"], -7)).toEqual([
    "TEST_SEED=-7 npx vitest run --config test/vitest.config.ts test/a.test.ts",
    "TEST_SEED=-7 npx vitest run --config test/vitest.config.ts test/b.test.ts",
  ]);
});
