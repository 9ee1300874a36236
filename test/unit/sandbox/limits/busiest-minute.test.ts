import fc from "fast-check";
import { expect, test } from "vitest";
import { createBusiestMinute } from "../../../../src/sandbox/limits/limits.ts";
import { anAccount, refusal } from "./an-account.ts";

test("a burst before and one after the end of a window show up together", async () => {
  const { limits, account, clock } = anAccount();
  limits.admit(account, "message");
  await clock.advance(59_000);
  for (let call = 1; call < 60; call += 1) limits.admit(account, "message");
  expect(refusal(() => limits.admit(account, "message"))?.status).toBe(429);
  await clock.advance(1_000);
  for (let call = 0; call < 60; call += 1) limits.admit(account, "message");
  expect(limits.perMinute("main").messages).toEqual({ last: 119, peak: 119 });
  await clock.advance(59_000);
  expect(limits.perMinute("main")).toEqual({ messages: { last: 60, peak: 119 }, requests: { last: 60, peak: 119 }, refused: 1 });
  await clock.advance(1_000);
  expect(limits.perMinute("main").messages).toEqual({ last: 0, peak: 119 });
});

test("as counted by hand over every minute that ends at an arrival", () => {
  fc.assert(
    fc.property(
      fc.array(fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 500 }), fc.integer({ min: 0, max: 70_000 })), { maxLength: 400 }),
      (waits) => {
        const measure = createBusiestMinute();
        const arrivals: number[] = [];
        let now = 1_000_000;
        for (const wait of waits) {
          now += wait;
          arrivals.push(now);
          measure.add(now);
        }
        const inMinuteTo = (end: number) => arrivals.filter((at) => at > end - 60_000 && at <= end).length;
        expect(measure.peak()).toBe(Math.max(0, ...arrivals.map(inMinuteTo)));
        expect(measure.last(now + 30_000)).toBe(inMinuteTo(now + 30_000));
      },
    ),
  );
});

test("a clock set back loses nothing", () => {
  const measure = createBusiestMinute();
  measure.add(100_000);
  measure.add(50_000);
  expect([measure.last(50_000), measure.peak()]).toEqual([2, 2]);
  expect(measure.last(160_000)).toBe(0);
});
