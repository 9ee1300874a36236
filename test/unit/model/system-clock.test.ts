import { expect, test, vi } from "vitest";
import { systemClock } from "../../../src/model/clock.ts";

test.each([
  [-4, 0],
  [7, 7],
  [2 ** 40, 2 ** 31 - 1],
])(
  "a wait of %d ms is one of %d: Node warns of the first, and takes what is too long for nothing",
  (ms, asked) => {
    const set = vi.spyOn(globalThis, "setTimeout");
    systemClock.after(ms, () => {})();
    expect(set.mock.calls.map(([, wait]) => wait)).toEqual([asked]);
    set.mockRestore();
  },
);
