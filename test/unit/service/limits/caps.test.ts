import { expect, test } from "vitest";
import { mostPolls, planCaps, shareOf } from "../../../../src/service/limits/caps.ts";

test("the caps of both plans match the document", () => {
  expect(planCaps).toEqual({
    escala: { requests: 300, messages: 60 },
    enterprise: { requests: 1200, messages: 300 },
  });
});

test("a share is rounded down, and at least 1", () => {
  expect(shareOf(planCaps.escala, 1)).toEqual({ requests: 300, messages: 60 });
  expect(shareOf(planCaps.escala, 0.5)).toEqual({ requests: 150, messages: 30 });
  expect(shareOf(planCaps.enterprise, 0.333)).toEqual({ requests: 399, messages: 99 });
  expect(shareOf(planCaps.escala, 0.01)).toEqual({ requests: 3, messages: 1 });
  expect(shareOf(planCaps.escala, 0.0001)).toEqual({ requests: 1, messages: 1 });
  // 300 * 0.57 is 170.99999999999997 in doubles.
  expect(shareOf(planCaps.escala, 0.57)).toEqual({ requests: 171, messages: 34 });
  expect(shareOf({ requests: 10, messages: 60 }, 1)).toEqual({ requests: 10, messages: 10 });
});

test("polls get what messages cannot need, less a tenth, and at least 1", () => {
  expect(mostPolls({ requests: 300, messages: 60 })).toBe(216);
  expect(mostPolls({ requests: 3, messages: 1 })).toBe(1);
  expect(mostPolls({ requests: 1, messages: 1 })).toBe(1);
});
