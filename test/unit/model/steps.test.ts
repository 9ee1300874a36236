import { expect, test } from "vitest";
import { runInTurns, runSteps } from "../../../src/model/steps.ts";

/** Six steps of 4 ms each, by `clock`. */
function* working(clock: { ms: number }, done: string[]) {
  for (const step of ["a", "b", "c", "d", "e", "f"]) {
    clock.ms += 4;
    done.push(step);
    yield;
  }
  return "result";
}

test("rests after the first step, and then whenever ten milliseconds have passed", async () => {
  const clock = { ms: 0 };
  const done: string[] = [];
  const rest = async () => void done.push("rest");
  expect(await runInTurns(working(clock, done), () => clock.ms, rest)).toBe("result");
  expect(done).toEqual(["a", "rest", "b", "c", "d", "rest", "e", "f"]);
});

test("others are served in a rest", async () => {
  let served = 0;
  setImmediate(() => setImmediate(() => (served += 1)));
  // A rest that begins while the machine is busy may be over before their turn: then another one
  // follows.
  const giveUpAt = performance.now() + 10_000;
  await runInTurns(
    (function* () {
      while (served === 0 && performance.now() < giveUpAt) yield;
    })(),
  );
  expect(served).toBe(1);
});

test("does all steps at once where nobody waits", () => {
  const done: string[] = [];
  expect(runSteps(working({ ms: 0 }, done))).toBe("result");
  expect(done).toEqual(["a", "b", "c", "d", "e", "f"]);
});
