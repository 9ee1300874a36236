import fc from "fast-check";
import { expect, test } from "vitest";
import { createAgenda } from "../../../src/sandbox/clock.ts";

type Order = { what: "add"; at: number } | { what: "cancel"; which: number } | { what: "take" };

const orders = fc.array(
  fc.oneof(
    {
      weight: 5,
      arbitrary: fc.record({
        what: fc.constant("add" as const),
        at: fc.integer({ min: 0, max: 20 }),
      }),
    },
    { weight: 2, arbitrary: fc.record({ what: fc.constant("cancel" as const), which: fc.nat() }) },
    { weight: 3, arbitrary: fc.record({ what: fc.constant("take" as const) }) },
  ),
  { maxLength: 120 },
);

/**
 * The slow way: a list, sorted each time. `sort` is stable, so what was added first stays first.
 */
function play(all: readonly Order[]) {
  const agenda = createAgenda();
  const taken: number[] = [];
  const expected: number[] = [];
  const cancels: (() => void)[] = [];
  let list: { at: number; number: number }[] = [];
  const soonest = () => list.toSorted((a, b) => a.at - b.at)[0];
  for (const order of [...all, ...all.map(() => ({ what: "take" as const }))]) {
    if (order.what === "add") {
      const number = cancels.length;
      cancels.push(agenda.add(order.at, () => taken.push(number)));
      list.push({ at: order.at, number });
    } else if (order.what === "cancel") {
      const number = cancels.length === 0 ? 0 : order.which % cancels.length;
      cancels[number]?.();
      list = list.filter((entry) => entry.number !== number);
    } else {
      expect(agenda.nextAt()).toBe(soonest()?.at ?? null);
      const next = soonest();
      list = list.filter((entry) => entry !== next);
      if (next !== undefined) expected.push(next.number);
      const run = agenda.take();
      expect(run === undefined).toBe(next === undefined);
      run?.();
    }
  }
  return { taken, expected };
}

test("takes the soonest, and of equals the one added first, whatever is taken back meanwhile", () => {
  fc.assert(
    fc.property(orders, (all) => {
      const { taken, expected } = play(all);
      expect(taken).toEqual(expected);
    }),
    { numRuns: 150 },
  );
});

test("taking back twice, or after it was taken, does nothing", () => {
  const agenda = createAgenda();
  const cancel = agenda.add(1, () => {});
  agenda.add(2, () => {});
  agenda.take();
  cancel();
  cancel();
  expect(agenda.nextAt()).toBe(2);
});
