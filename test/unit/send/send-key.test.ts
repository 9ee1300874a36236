import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { beginKey, endKey, type KeyHeld, type SendEnd } from "../../../src/model/send.ts";
import { fingerprintOf } from "../../../src/send/once.ts";

const held = (state: KeyHeld["state"], attempts = 1): KeyHeld => ({
  state,
  attempts,
  fingerprint: "f",
});

describe("beginKey", () => {
  test.each<[string, KeyHeld | null, { fingerprint: string; resend: number }, KeyHeld | null]>([
    ["free", null, { fingerprint: "f", resend: 0 }, held("calling")],
    ["free, told to resend", null, { fingerprint: "f", resend: 3 }, held("calling")],
    ["calling", held("calling"), { fingerprint: "f", resend: 1 }, null],
    ["done", held("done"), { fingerprint: "f", resend: 1 }, null],
    ["unknown", held("unknown"), { fingerprint: "f", resend: 0 }, null],
    [
      "unknown, told to resend",
      held("unknown"),
      { fingerprint: "f", resend: 1 },
      held("calling", 2),
    ],
    ["unknown, of an earlier try", held("unknown", 2), { fingerprint: "f", resend: 1 }, null],
    ["unknown, of a try there was not", held("unknown", 1), { fingerprint: "f", resend: 2 }, null],
    ["unknown, another body", held("unknown"), { fingerprint: "g", resend: 1 }, null],
  ])("%s", (_, before, claim, after) => {
    expect(beginKey(before, claim)).toEqual(after);
  });
});

describe("endKey", () => {
  test.each<[string, KeyHeld, SendEnd["end"], KeyHeld | null]>([
    ["done", held("calling"), "done", held("done")],
    ["not done", held("calling"), "not-done", null],
    ["unknown", held("calling"), "unknown", held("unknown")],
    ["a resend that did nothing", held("calling", 2), "not-done", held("unknown", 1)],
    ["a resend that is done", held("calling", 2), "done", held("done", 2)],
    ["a resend of unknown outcome", held("calling", 2), "unknown", held("unknown", 2)],
    ["done already", held("done"), "not-done", held("done")],
    ["unknown already", held("unknown"), "done", held("unknown")],
  ])("%s", (_, before, end, after) => {
    expect(endKey(before, end)).toEqual(after);
  });
});

describe("fingerprintOf", () => {
  test("ignores the order of keys, but not of lists, and includes every value", () => {
    expect(fingerprintOf({ a: 1, b: { c: [1, 2], d: undefined } })).toBe(
      fingerprintOf({ b: { c: [1, 2] }, a: 1 }),
    );
    const others = [
      { a: 1 },
      { a: "1" },
      { a: null },
      { a: [1] },
      { a: { b: 1 } },
      {},
      [],
      { a: [2, 1] },
      { a: [1, 2] },
      { "a:1": 1 },
      null,
    ];
    expect(new Set(others.map(fingerprintOf)).size).toBe(others.length);
  });

  test("is equal for equal JSON only", () => {
    const shuffled = (value: unknown): unknown =>
      typeof value !== "object" || value === null || Array.isArray(value)
        ? value
        : Object.fromEntries(
            Object.entries(value)
              .toReversed()
              .map(([key, item]) => [key, shuffled(item)]),
          );
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        // As JSON has them: no -0.
        const [one, other] = [JSON.parse(JSON.stringify(a)), JSON.parse(JSON.stringify(b))];
        expect(fingerprintOf(one)).toBe(fingerprintOf(shuffled(one)));
        let isSame = true;
        try {
          expect(one).toEqual(other);
        } catch {
          isSame = false;
        }
        expect(fingerprintOf(one) === fingerprintOf(other)).toBe(isSame);
      }),
    );
  });
});
