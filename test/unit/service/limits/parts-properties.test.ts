import fc from "fast-check";
import { expect, test } from "vitest";
import { createPace } from "../../../../src/model/clock.ts";
import { createSlotWindow, spread } from "../../../../src/service/limits/slots.ts";

test("a window whose limit shrank has nothing free until enough came back", () => {
  const window = createSlotWindow(3);
  for (const at of [100, 200]) {
    window.take(0);
    window.giveBack(at);
  }
  window.take(0);
  expect([window.used(0), window.freeAt(0)]).toEqual([3, 100]);
  window.setLimit(1, 0);
  expect([window.freeAt(100), window.freeAt(200), window.used(200)]).toEqual([
    200,
    Number.POSITIVE_INFINITY,
    1,
  ]);
  window.giveBack(260);
  expect([window.freeAt(200), window.freeAt(260)]).toEqual([260, 260]);
});

test("a pace: a sixth at once, then even, never more than that, and a long rest saves up no more", () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1200 }), fc.nat(3_600_000), (perMinute, rest) => {
      const pace = createPace(...spread(perMinute));
      let now = rest;
      let taken = 0;
      const burst = Math.ceil(perMinute / 6);
      for (; pace.readyAt() <= now; taken += 1) pace.take(now);
      expect(taken).toBe(burst);
      for (; taken < burst + perMinute; taken += 1) {
        now = pace.readyAt();
        pace.take(now);
        expect(taken + 1).toBeLessThanOrEqual(burst + (perMinute * (now - rest)) / 60_000 + 1e-3);
      }
      expect(now - rest).toBe(60_000);
    }),
  );
});
