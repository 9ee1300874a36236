import fc from "fast-check";
import { expect, test } from "vitest";
import { quotaMonth, renewalOf } from "../../../src/service/limits/caps.ts";

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
const clockThere = (at: number) =>
  Object.fromEntries(there.formatToParts(at).map(({ type, value }) => [type, value]));

// Since 2010, when Argentina had given up daylight saving.
const moment = fc.integer({ min: Date.UTC(2010, 0, 1), max: Date.UTC(2099, 11, 31) });

test("is midnight of day 1 of the next month, Argentina time", () => {
  fc.assert(
    fc.property(moment, (now) => {
      const at = quotaMonth(now).until;
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
  // The counter is late, the answer was on its way at midnight, or the relay's clock is fast.
  ["2026-12-01T03:00:20Z", "2026-12-01T03:00:00.000Z"],
  ["2026-12-01T03:01:00Z", "2027-01-01T03:00:00.000Z"],
  ["2026-12-15T12:00:00Z", "2027-01-01T03:00:00.000Z"],
])("a quota used up at %s is renewed at %s, and a minute later that is known", (now, at) => {
  const renewal = renewalOf(Date.parse(now));
  expect(new Date(renewal.at).toISOString()).toBe(at);
  expect(renewal.knownAt - renewal.at).toBe(60_000);
});
