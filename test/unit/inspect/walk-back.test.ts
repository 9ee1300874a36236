import { expect, test } from "vitest";
import { walkBack } from "../../../src/inspect/walk-back.ts";

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
      return rows.filter(({ seq }) => seq > after && seq < before && seq % 10_000 === 0).slice(0, limit);
    },
  });
  return { seqs: found.map(({ seq }) => seq), reached, first: windows[0], sum: windows.reduce((sum, size) => sum + size, 0) };
}

test("finds the same rows with large windows outside of the receiving thread, and reads each seq once", async () => {
  const [here, aside] = [await walk(false), await walk(true)];
  expect(aside).toEqual({ ...here, first: 20_000 });
  expect(here).toEqual({ seqs: [10, 9, 8, 7, 6, 5, 4, 3, 2, 1].map((n) => n * 10_000), reached: null, first: 5_000, sum: 100_000 });
});
