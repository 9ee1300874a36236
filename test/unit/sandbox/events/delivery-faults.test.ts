import { expect, test } from "vitest";
import {
  createFaultDraw,
  type DeliveryFaults,
  malformations,
  noFaults,
} from "../../../../src/sandbox/events/delivery-faults.ts";
import { type EventFaults, eventFaultsSchema } from "../../../../src/sandbox/faults.ts";
import { createRandom } from "../../../../src/sandbox/ids.ts";

const draws = (shares: Partial<EventFaults>, count: number, seed = "1"): DeliveryFaults[] => {
  const draw = createFaultDraw(createRandom(seed));
  const settings = eventFaultsSchema.parse(shares);
  return Array.from({ length: count }, () => draw(settings));
};
const all = {
  duplicate: 1,
  reorder: 1,
  delay: 1,
  delayMs: 7,
  drop: 1,
  truncate: 1,
  wrongSignature: 1,
  malformed: 1,
};

test("no share, no fault; share 1, always", () => {
  for (const drawn of draws({}, 1_000)) expect(drawn).toEqual(noFaults);
  for (const { malformed, duplicateAfterMs, ...drawn } of draws(all, 1_000)) {
    expect(drawn).toEqual({
      drop: true,
      truncate: true,
      wrongSignature: true,
      reorder: true,
      delayMs: 7,
    });
    expect(malformations).toContain(malformed);
    expect(duplicateAfterMs).toBeGreaterThanOrEqual(0);
  }
});

test("the same seed draws the same, another draws otherwise", () => {
  const shares = { duplicate: 0.3, malformed: 0.3 };
  expect(draws(shares, 500)).toEqual(draws(shares, 500));
  expect(draws(shares, 500, "2")).not.toEqual(draws(shares, 500));
});

test("one fault's share does not shift whom another meets", () => {
  const alone = draws({ drop: 0.2 }, 500).map(({ drop }) => drop);
  expect(draws({ ...all, drop: 0.2 }, 500).map(({ drop }) => drop)).toEqual(alone);
});

test("half the copies travel side by side with the first, the others up to a second later", () => {
  const gaps = draws({ duplicate: 1 }, 2_000).map(
    ({ duplicateAfterMs }) => duplicateAfterMs as number,
  );
  const sideBySide = gaps.filter((gap) => gap === 0).length;
  expect(sideBySide).toBeGreaterThan(900);
  expect(sideBySide).toBeLessThan(1_100);
  expect(Math.max(...gaps)).toBeLessThanOrEqual(1_000);
});
