import fc from "fast-check";
import { expect, test } from "vitest";
import { retryAfterMs as parse } from "../../../src/net/exchange.ts";

const now = Date.parse("2026-11-21T10:00:00Z");
const longest = 24 * 3_600_000;
const retryAfterMs = (header: string | readonly string[] | undefined, at: number) =>
  parse(header, at, longest);

test("reads seconds", () => {
  expect(retryAfterMs("0", now)).toBe(0);
  expect(retryAfterMs(" 120 ", now)).toBe(120_000);
  expect(retryAfterMs(["7", "9"], now)).toBe(7000);
});

test("reads the three date formats of RFC 9110 in any time zone", () => {
  expect(retryAfterMs("Sat, 21 Nov 2026 10:01:00 GMT", now)).toBe(60_000);
  expect(retryAfterMs("Saturday, 21-Nov-26 10:01:00 GMT", now)).toBe(60_000);
  expect(retryAfterMs("Sat Nov 21 10:01:00 2026", now)).toBe(60_000);
  expect(retryAfterMs("Sun Nov  6 08:49:37 1994", now)).toBe(0);
});

test("limits the wait to the range from now to the longest", () => {
  expect(retryAfterMs("Fri, 21 Nov 2025 10:00:00 GMT", now)).toBe(0);
  expect(retryAfterMs("Sun, 21 Nov 2027 10:00:00 GMT", now)).toBe(longest);
  expect(retryAfterMs("9".repeat(400), now)).toBe(longest);
  expect(parse("99999999", now, 3_600_000)).toBe(3_600_000);
  expect(parse("Fri, 31 Dec 9999 23:59:59 GMT", now, 60_000)).toBe(60_000);
  expect(parse("5", now, 0)).toBe(0);
});

test.each([
  undefined,
  "",
  "soon",
  "-1",
  "1.5",
  "1e3",
  "0x10",
  "2026-11-21T10:01:00Z",
  "21 Nov 2026",
  "Sat, 99 Xxx 2026 10:01:00 GMT",
])("%s is none", (text) => {
  expect(retryAfterMs(text, now)).toBeNull();
});

test("returns null or a whole number from 0 to the longest for any text", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: "binary" }),
        fc.string({ unit: fc.constantFrom(..."0123456789 :,-GMTSunNov") }),
      ),
      (text) => {
        const wait = retryAfterMs(text, now);
        if (wait === null) return;
        expect(Number.isInteger(wait)).toBe(true);
        expect(wait).toBeGreaterThanOrEqual(0);
        expect(wait).toBeLessThanOrEqual(longest);
      },
    ),
  );
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 86_400 }), (seconds) => {
      expect(retryAfterMs(String(seconds), now)).toBe(seconds * 1000);
      expect(retryAfterMs(new Date(now + seconds * 1000).toUTCString(), now)).toBe(seconds * 1000);
    }),
  );
});
