import { expect, test } from "vitest";
import { readIndexed, walkBack } from "../../../src/inspect/walk-back.ts";

const rows = Array.from({ length: 100_000 }, (_, index) => ({ seq: 100_000 - index }));

/** Every tenth thousandth row matches. */
async function walk(isAside: boolean) {
  const windows: number[] = [];
  const { found, reached } = await walkBack({
    limit: 50,
    isAside,
    longestMs: Number.POSITIVE_INFINITY,
    bounds: () => ({ oldest: 1, newest: rows.length }),
    read(after, before, limit) {
      windows.push(before - after - 1);
      return rows
        .filter(({ seq }) => seq > after && seq < before && seq % 10_000 === 0)
        .slice(0, limit);
    },
  });
  return {
    seqs: found.map(({ seq }) => seq),
    reached,
    first: windows[0],
    sum: windows.reduce((sum, size) => sum + size, 0),
  };
}

test("finds the same rows with large windows outside of the receiving thread, and reads each seq once", async () => {
  const [here, aside] = [await walk(false), await walk(true)];
  expect(aside).toEqual({ ...here, first: 20_000 });
  expect(here).toEqual({
    seqs: [10, 9, 8, 7, 6, 5, 4, 3, 2, 1].map((n) => n * 10_000),
    reached: null,
    first: 5_000,
    sum: 100_000,
  });
});

test.each([4, 5, 6])("of five rows, a page of %i ends where another one is", async (limit) => {
  const seqs = [9, 7, 5, 3, 1].map((seq) => ({ seq }));
  const read = (after: number, before: number, most: number) =>
    seqs.filter(({ seq }) => seq > after && seq < before).slice(0, most);
  const walked = await walkBack({ limit, bounds: () => ({ oldest: 1, newest: 9 }), read });
  const indexed = await readIndexed(({ limit }) => read(0, 10, limit), { limit });
  for (const { found, reached } of [walked, indexed]) {
    expect(found).toEqual(seqs.slice(0, limit));
    expect(reached !== null).toBe(limit < seqs.length);
  }
});

test("a page that is full at the end of a window does not search on for one row more", async () => {
  let windows = 0;
  const read = (after: number, before: number) => {
    windows += 1;
    return rows.filter(({ seq }) => seq > after && seq < before && seq > 99_990);
  };
  const { found, reached } = await walkBack({
    limit: 10,
    bounds: () => ({ oldest: 1, newest: rows.length }),
    read,
  });
  expect([found.length, windows, reached]).toEqual([10, 1, 95_001]);
});
