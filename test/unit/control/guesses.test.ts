import { expect, test } from "vitest";
import { createGuesses } from "../../../src/control/guesses.ts";

const minute = 60_000;

function guesses() {
  const world = { now: Date.parse("2026-11-21T12:00:00Z"), results: [] as string[] };
  const guess = createGuesses(
    () => world.now,
    (token, result) => void world.results.push(`${token} ${result}`),
  );
  const miss = (token = "reader") => guess(token)(false);
  return { world, guess, miss };
}

test("refuses a token after twenty misses, and renews one each three minutes", () => {
  const { world, miss } = guesses();
  for (let n = 0; n < 20; n += 1) miss();
  expect(miss).toThrow(
    expect.objectContaining({ code: "too_many_guesses", retryAfterMs: 3 * minute }),
  );
  miss("another");
  world.now += 3 * minute - 1;
  expect(miss).toThrow(expect.objectContaining({ retryAfterMs: 1 }));
  world.now += 1;
  miss();
  expect(miss).toThrow();
  world.now += 60 * minute;
  for (let n = 0; n < 20; n += 1) miss();
  expect(miss).toThrow();
  expect(world.results.filter((each) => each === "reader refused")).toHaveLength(4);
});

test("never counts what was found, and recovers when the clock is set back", () => {
  const { world, guess, miss } = guesses();
  for (let n = 0; n < 1_000; n += 1) guess("reader")(true);
  for (let n = 0; n < 20; n += 1) miss();
  world.now -= 24 * 60 * minute;
  expect(miss).toThrow(expect.objectContaining({ retryAfterMs: 3 * minute }));
  expect(world.results.slice(0, 2)).toEqual(["reader found", "reader found"]);
});

test("counts searches that are in flight at once", () => {
  const { guess, miss } = guesses();
  const pending = Array.from({ length: 20 }, () => guess("reader"));
  expect(miss).toThrow();
  pending[0]?.(true);
  miss();
  expect(miss).toThrow();
});
