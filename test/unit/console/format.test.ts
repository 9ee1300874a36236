import { describe, expect, test } from "vitest";
import {
  bytes,
  count,
  duration,
  figure,
  percent,
  plural,
} from "../../../src/console/parts/format.ts";

describe("duration", () => {
  test.each([
    [null, "–"],
    [0, "0 ms"],
    [4.14, "4.1 ms"],
    [999, "999 ms"],
    [1_000, "1 s"],
    [1_500, "1.5 s"],
    [90_000, "90 s"],
    [119_999, "120 s"],
    [120_000, "2 min"],
    [720_000, "12 min"],
    [7_200_000, "2 h"],
    [172_800_000, "2 d"],
  ])("of %s ms", (ms, text) => {
    expect(duration(ms)).toBe(text);
  });
});

describe("percent", () => {
  test.each([
    [null, "–"],
    [0, "0 %"],
    [0.4125, "41.2 %"],
    [0.9999, "99.9 %"],
    [1, "100 %"],
  ])("of %s", (share, text) => {
    expect(percent(share)).toBe(text);
  });
});

test("numbers, sizes and nouns", () => {
  expect([count(null), count(1204), figure(4.14), figure(182.4)]).toEqual([
    "–",
    "1,204",
    "4.1",
    "182",
  ]);
  expect([bytes(999), bytes(1_500), bytes(2_000_000)]).toEqual(["999 bytes", "1.5 kB", "2 MB"]);
  expect([plural(1, "delivery", "deliveries"), plural(0, "event")]).toEqual([
    "1 delivery",
    "0 events",
  ]);
});
