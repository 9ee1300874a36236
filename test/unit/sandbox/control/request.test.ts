import fc from "fast-check";
import { expect, test } from "vitest";
import { pageOf } from "../../../../src/sandbox/control/routes.ts";

const idOf = (n: number) => ({ id: String(n).padStart(4, "0"), isOdd: n % 2 === 1 });

test("pages of a list are the list, whatever their size and filter; next is null on the last page only", () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.nat(200), { maxLength: 60 }),
      fc.integer({ min: 1, max: 20 }),
      fc.boolean(),
      (numbers, limit, onlyOdd) => {
        const list = numbers.toSorted((a, b) => a - b).map(idOf);
        const matches = (record: { isOdd: boolean }) => !onlyOdd || record.isOdd;
        const walked: unknown[] = [];
        let after = "";
        let pages = 0;
        for (;;) {
          const { data, next } = pageOf(list, { limit, after }, matches);
          walked.push(...data);
          pages += 1;
          if (next === null) break;
          expect(data).toHaveLength(limit);
          after = next;
        }
        expect(walked).toEqual(list.filter(matches));
        expect(pages).toBe(Math.max(1, Math.ceil(walked.length / limit)));
      },
    ),
  );
});

test("a page after an id that is no more begins with the next one", () => {
  const list = [1, 3, 5].map(idOf);
  expect(pageOf(list, { limit: 10, after: "0002" }).data).toEqual([idOf(3), idOf(5)]);
  expect(pageOf(list, { limit: 10, after: "0005" })).toEqual({ data: [], next: null });
  expect(pageOf([], { limit: 1, after: "" })).toEqual({ data: [], next: null });
});
