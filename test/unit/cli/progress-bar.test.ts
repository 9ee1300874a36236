import { expect, test } from "vitest";
import type { Io } from "../../../src/cli/io.ts";
import { createProgressBar, speedText } from "../../../src/cli/progress.ts";

function recorder(
  isTerminal: boolean,
): Io & { readonly out: (line: string) => void; readonly lines: string[] } {
  const lines: string[] = [];
  return {
    lines,
    out: (line) => void lines.push(`out ${line}`),
    err: (line) => void lines.push(`err ${line}`),
    isTerminal,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
}

test("on a terminal it is drawn over itself, at most ten times a second, and cleared at the end", () => {
  let now = 0;
  const io = recorder(true);
  const bar = createProgressBar(io, false, { now: () => now });
  bar.show(0, "0 of 2");
  now = 50;
  bar.show(0.25, "not drawn");
  now = 150;
  bar.show(0.5, "1 of 2");
  bar.end();
  bar.end();
  expect(io.lines).toEqual([
    `out [${".".repeat(30)}]   0%  0 of 2`,
    `out \x1b[1A\x1b[0J[${"#".repeat(15)}${".".repeat(15)}]  50%  1 of 2`,
    "out \x1b[1A\x1b[0J\x1b[1A",
  ]);
});

test.each([
  [false, false],
  [true, true],
])(
  "in a pipe, and with --json, it is a line on standard error every two seconds (terminal %s, json %s)",
  (isTerminal, isJson) => {
    let now = 0;
    const io = recorder(isTerminal);
    const bar = createProgressBar(io, isJson, { now: () => now });
    bar.show(0.1, "soon");
    now = 2_000;
    bar.show(0.5, "1 of 2");
    now = 2_500;
    bar.show(0.6, "again");
    now = 4_500;
    bar.show(null, "9 lines");
    bar.end();
    expect(io.lines).toEqual(["err 50%  1 of 2", "err 9 lines"]);
  },
);

test("on a terminal it is not drawn over other output", () => {
  let now = 0;
  const io = recorder(true);
  const bar = createProgressBar(io, false, { now: () => now });
  bar.show(null, "1 line");
  bar.leave();
  now = 200;
  bar.show(1, "2 lines");
  expect(io.lines).toEqual(["out 1 line", `out [${"#".repeat(30)}] 100%  2 lines`]);
});

test("shows how many, how fast, and how many failed", () => {
  expect(speedText(0, "lines", 0, 0, "refused")).toBe("0 lines");
  expect(speedText(2_000, "lines", 1_000, 0, "refused")).toBe("2,000 lines  2,000/s");
  expect(speedText(4_000, "lines", 2_000, 2, "refused")).toBe("4,000 lines  2,000/s  2 refused");
});
