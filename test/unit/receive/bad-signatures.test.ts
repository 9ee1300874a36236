import { expect, test } from "vitest";
import { createBadSignatures } from "../../../src/receive/bad-signatures.ts";

test("up to the limit nothing, then the seconds that are left of the minute", () => {
  const { count } = createBadSignatures(3);
  expect([count("a", 1_000_000), count("a", 1_010_000), count("a", 1_020_000)]).toEqual([null, null, null]);
  expect(count("a", 1_020_000)).toBe(40);
  expect(count("a", 1_059_999)).toBe(1);
  expect(count("b", 1_059_999)).toBeNull();
});

test("the window ends: counted from the start again", () => {
  const { count } = createBadSignatures(1);
  count("a", 0);
  expect(count("a", 59_999)).toBe(1);
  expect(count("a", 60_000)).toBeNull();
  expect(count("a", 60_000)).toBe(60);
});

test("a clock that is set back does not lock anybody out for longer than a window", () => {
  const { count } = createBadSignatures(1);
  count("a", 10_000_000);
  expect(count("a", 10_000_000)).toBe(60);
  expect(count("a", 5_000_000)).toBeNull();
  expect(count("a", 5_000_000)).toBe(60);
});

test("never a wait of nothing, nor one longer than the window", () => {
  const { count } = createBadSignatures(1);
  for (let now = 0; now < 200_000; now += 7) {
    const wait = count("a", now);
    if (wait !== null) expect(wait >= 1 && wait <= 60).toBe(true);
  }
});

test("addresses beyond ten thousand are not remembered, and those before still are", () => {
  const { count } = createBadSignatures(1);
  for (let n = 0; n < 10_000; n++) count(`a${n}`, 0);
  expect(count("a9999", 1)).toBe(60);
  for (let n = 0; n < 5; n++) expect(count("one more", 1)).toBeNull();
});
