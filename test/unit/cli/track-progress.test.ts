import { expect, test } from "vitest";
import { createTrackProgress } from "../../../src/cli/track-run.ts";

const sums = (lines: number, conflict = 0) => ({ lines, created: lines - conflict, known: 0, conflict, invalid: 0 });

function onScreen(isTerminal: boolean, isJson = false) {
  const printed: string[] = [];
  let now = 0;
  const io = {
    out: (line: string) => void printed.push(`out ${line}`),
    err: (line: string) => void printed.push(`err ${line}`),
    isTerminal,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
  const progress = createTrackProgress(io, isJson, () => now);
  return { printed, progress, at: (ms: number) => (now = ms) };
}

test("on a terminal a bar is drawn over itself, not more than ten times a second, and not over what others printed", () => {
  const { printed, progress, at } = onScreen(true);
  progress.show(sums(0), 0);
  at(50);
  progress.show(sums(1), 0.1);
  at(1_000);
  progress.show(sums(2_000), 0.5);
  progress.leave();
  at(2_000);
  progress.show(sums(4_000, 2), 1);
  expect(printed).toEqual([
    `out [${".".repeat(30)}]   0%  0 lines`,
    `out \x1b[1A\x1b[0J[${"#".repeat(15)}${".".repeat(15)}]  50%  2,000 lines  2,000/s`,
    `out [${"#".repeat(30)}] 100%  4,000 lines  2,000/s  2 refused`,
  ]);
});

test.each([
  [false, false],
  [true, true],
])("in a pipe, and with --json, a plain line on standard error now and then", (isTerminal, isJson) => {
  const { printed, progress, at } = onScreen(isTerminal, isJson);
  progress.show(sums(0), 0);
  at(2_500);
  progress.show(sums(5_000), 0.25);
  at(3_000);
  progress.show(sums(6_000), 0.3);
  at(5_000);
  progress.show(sums(9_000), null);
  expect(printed).toEqual(["err 25%  5,000 lines  2,000/s", "err 9,000 lines  1,800/s"]);
});
