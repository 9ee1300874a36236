import fc from "fast-check";
import { expect, test } from "vitest";
import { createLane } from "../../../../src/sandbox/events/posting.ts";
import { settled } from "../../../harness/manual-clock.ts";

/** Work whose end is in the test's hand. */
function createWork() {
  const begun: number[] = [];
  const ends = new Map<number, (error?: Error) => void>();
  return {
    begun,
    of: (number: number) => () =>
      new Promise<void>((resolve, reject) => {
        begun.push(number);
        ends.set(number, (error) => (error === undefined ? resolve() : reject(error)));
      }),
    underWay: () => [...ends.keys()],
    async end(number: number, error?: Error) {
      const end = ends.get(number);
      ends.delete(number);
      end?.(error);
      await settled(1);
    },
  };
}

test("all work runs once, no more than the limit at once, and each line in its order", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.option(fc.constantFrom("a", "b", "c")), { maxLength: 40 }),
      fc.infiniteStream(fc.nat()),
      async (limit, added, picks) => {
        const lane = createLane(limit, () => {});
        const work = createWork();
        added.forEach((line, number) => {
          lane.add(work.of(number), line);
        });
        for (;;) {
          const underWay = work.underWay();
          expect(underWay.length).toBeLessThanOrEqual(limit);
          const lines = underWay.map((number) => added[number]).filter((line) => line != null);
          expect(new Set(lines).size).toBe(lines.length);
          if (underWay.length === 0) break;
          await work.end(underWay[picks.next().value % underWay.length] as number);
        }
        expect([...work.begun].sort((a, b) => a - b)).toEqual(added.map((_, number) => number));
        for (const line of ["a", "b", "c"]) {
          const inLine = work.begun.filter((number) => added[number] === line);
          expect(inLine).toEqual([...inLine].sort((a, b) => a - b));
        }
      },
    ),
    { numRuns: 60 },
  );
});

test("work that rejects is told of and holds nobody back", async () => {
  const errors: unknown[] = [];
  const lane = createLane(1, (error) => errors.push(error));
  const work = createWork();
  lane.add(work.of(1), "a");
  lane.add(work.of(2), "a");
  const error = new Error("unforeseen");
  await work.end(1, error);
  expect(errors).toEqual([error]);
  expect(work.underWay()).toEqual([2]);
});

test("a line that has ended can be opened again, and thousands of waiting jobs keep their order", async () => {
  const lane = createLane(1, () => {});
  const order: number[] = [];
  for (let number = 0; number < 5_000; number += 1) lane.add(async () => void order.push(number), String(number % 7));
  await settled(2);
  expect(order.slice(0, 3)).toHaveLength(3);
  for (let line = 0; line < 7; line += 1) {
    const inLine = order.filter((number) => number % 7 === line);
    expect(inLine).toEqual(Array.from({ length: inLine.length }, (_, at) => line + at * 7));
  }
  expect(order).toHaveLength(5_000);
});
