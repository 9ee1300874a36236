import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { messageStatuses, runStatuses } from "../../../src/model/statuses.ts";
import type { MessageState, RunState } from "../../../src/model/tracking.ts";
import { newMessage, newRun, stepMessage, stepRun } from "../../../src/track/states.ts";

interface Cell {
  readonly from: string | null;
  readonly incoming: string;
  readonly to: string | null;
}

/** The cells of the first Markdown table whose head looks so, in a page or in a comment. */
function cellsOf(file: string, head: RegExp): Cell[] {
  const lines = readFileSync(new URL(`../../../${file}`, import.meta.url), "utf8")
    .split("\n")
    .map((line) => line.replace(/^\s*\*\s?/, ""));
  const start = lines.findIndex((line) => head.test(line));
  const split = (line: string) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim());
  const columns = split(lines[start] ?? "").slice(1);
  const cells: Cell[] = [];
  for (let at = start + 2; start !== -1 && lines[at]?.startsWith("|"); at += 1) {
    const [row = "", ...rest] = split(lines[at] ?? "");
    const from = row === "(none)" ? null : row;
    for (const [index, incoming] of columns.entries())
      cells.push({ from, incoming, to: rest[index] === "=" ? from : (rest[index] ?? null) });
  }
  return cells;
}

const key = (cell: Cell) => `${cell.from}+${cell.incoming}`;

describe.each([
  ["docs/states.md", /^\| message \|/],
  ["src/track/states.ts", /^\| {2,}\| pending/],
])("the table of messages in %s", (file, head) => {
  const cells = cellsOf(file, head);

  test("has every pair once", () => {
    const pairs = [null, ...messageStatuses].flatMap((from) => messageStatuses.map((incoming) => `${from}+${incoming}`));
    expect(cells.map(key).sort()).toEqual(pairs.sort());
  });

  test.each(cells)("$from, then $incoming: $to", ({ from, incoming, to }) => {
    const before = { ...newMessage, status: from } as MessageState;
    const { state, transition } = stepMessage(before, { status: incoming, errorCode: null, at: 1 });
    expect(state.status).toBe(to);
    expect(transition).toEqual(from === to ? null : { from, to });
  });
});

describe.each([
  ["docs/states.md", /^\| run \|/],
  ["src/track/states.ts", /^\| {2,}\| started/],
])("the table of runs in %s", (file, head) => {
  const cells = cellsOf(file, head);

  test("has every pair once", () => {
    const pairs = [null, ...runStatuses].flatMap((from) => runStatuses.map((incoming) => `${from}+${incoming}`));
    expect(cells.map(key).sort()).toEqual(pairs.sort());
  });

  test.each(cells)("$from, then $incoming: $to", ({ from, incoming, to }) => {
    const before = { ...newRun, status: from } as RunState;
    const { state, transition } = stepRun(before, { status: incoming as RunState["status"], error: null, at: 1 });
    expect(state.status).toBe(to);
    expect(transition).toEqual(from === to ? null : { from, to });
  });
});
