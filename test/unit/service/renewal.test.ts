import fc from "fast-check";
import { expect, test } from "vitest";
import { assessRenewal, dateOf, quotaMonth } from "../../../src/service/limits/caps.ts";

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

const second = 1_000;
const hour = 3_600 * second;
const day = 24 * hour;

test("is expected a minute after the month's end at the service, on the relay's clock, and always in the future", () => {
  fc.assert(
    fc.property(moment, fc.option(fc.integer({ min: -40 * day, max: 40 * day }), { freq: 4 }), (now, ahead) => {
      const serviceTime = ahead === null ? null : now - ahead;
      const { at, knownAt, isCertain } = assessRenewal(serviceTime, now);
      const isTaken = serviceTime !== null && Math.abs(serviceTime - now) <= hour;
      expect(knownAt).toBeGreaterThan(now);
      expect(knownAt - now).toBeLessThanOrEqual(31 * day);
      expect(knownAt + ((isTaken ? serviceTime : now) - now) - at).toBe(60 * second);
      expect(clockThere(at)).toMatchObject({ day: "01", hour: "00", minute: "00", second: "00" });
      if (isCertain) expect(isTaken).toBe(true);
    }),
  );
});

test.each([
  // The relay's clock is 3 s fast: the service still counts the month that ends.
  ["2026-12-01T03:00:01Z", "2026-12-01T02:59:58Z", "2026-12-01T03:01:03.000Z", true],
  // The counter is late, or the answer was on its way at midnight.
  ["2026-12-01T03:00:20Z", "2026-12-01T03:00:20Z", "2026-12-01T03:01:00.000Z", true],
  ["2026-12-01T03:00:20Z", null, "2026-12-01T03:01:00.000Z", false],
  // So soon after the turn it may be either month's.
  ["2026-12-01T03:02:00Z", "2026-12-01T03:02:00Z", "2027-01-01T03:01:00.000Z", false],
  ["2026-12-02T03:02:00Z", "2026-12-02T03:02:00Z", "2027-01-01T03:01:00.000Z", true],
  // A time of somebody else's is not taken.
  ["2026-12-15T12:00:00Z", "1970-01-01T00:00:00Z", "2027-01-01T03:01:00.000Z", false],
  ["2026-12-15T12:00:00Z", "2026-12-15T13:00:01Z", "2027-01-01T03:01:00.000Z", false],
  ["2026-12-15T12:00:00Z", null, "2027-01-01T03:01:00.000Z", false],
])("a quota used up at %s, by the service's %s, is known to be renewed at %s; certain: %s", (now, there, at, isCertain) => {
  const judged = assessRenewal(there === null ? null : Date.parse(there), Date.parse(now));
  expect([new Date(judged.knownAt).toISOString(), judged.isCertain]).toEqual([at, isCertain]);
});

test("reads valid Date headers only", () => {
  fc.assert(
    fc.property(moment, (now) => {
      expect(dateOf(new Date(now).toUTCString())).toBe(Math.floor(now / second) * second);
    }),
  );
  const none = [undefined, "", "0", "now", "2026-12-01T03:00:00Z", "Sun, 99 Nov 2026 10:00:00 GMT", "Sun, 22 Nov 2026 10:00:00 +0300"];
  for (const header of none) expect(dateOf(header)).toBeNull();
  expect(dateOf(["Sun, 22 Nov 2026 10:00:00 GMT", "Sun, 22 Nov 2026 10:00:00 GMT"])).toBeNull();
});
