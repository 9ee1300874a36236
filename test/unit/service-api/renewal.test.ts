import fc from "fast-check";
import { expect, test } from "vitest";
import { nextRenewal } from "../../../src/service-api/renewal.ts";

const there = new Intl.DateTimeFormat("en-CA", {
  timeZone: "America/Argentina/Buenos_Aires",
  year: "numeric",
  month: "2-digit",
  day: "2-digit",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});
const clockThere = (at: number) => Object.fromEntries(there.formatToParts(at).map(({ type, value }) => [type, value]));

// Since 2010, when Argentina had given up daylight saving.
const moment = fc.integer({ min: Date.UTC(2010, 0, 1), max: Date.UTC(2099, 11, 31) });

test("it is day 1, midnight, Argentina time, of the month after this one there", () => {
  fc.assert(
    fc.property(moment, (now) => {
      const at = nextRenewal(now);
      expect(at).toBeGreaterThan(now);
      expect(at % 1000).toBe(0);
      expect(clockThere(at)).toMatchObject({ day: "01", hour: "00", minute: "00", second: "00" });
      // None in between: a millisecond before, it is still the month it is now.
      const [before, today] = [clockThere(at - 1), clockThere(now)];
      expect([before["year"], before["month"]]).toEqual([today["year"], today["month"]]);
    }),
  );
});

test.each([
  ["2026-11-21T12:00:00Z", "2026-12-01T03:00:00.000Z"],
  ["2026-12-01T02:59:59.999Z", "2026-12-01T03:00:00.000Z"],
  ["2026-12-01T03:00:00Z", "2027-01-01T03:00:00.000Z"],
  ["2026-12-31T23:59:59-03:00", "2027-01-01T03:00:00.000Z"],
  ["2028-02-29T12:00:00Z", "2028-03-01T03:00:00.000Z"],
])("after %s comes %s", (now, at) => {
  expect(new Date(nextRenewal(Date.parse(now))).toISOString()).toBe(at);
});
