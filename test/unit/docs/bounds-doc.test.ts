import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const root = new URL("../../..", import.meta.url).pathname;
const page = readFileSync(join(root, "docs/contributing/bounds.md"), "utf8");
/** Cells of a Markdown row; `\|` is part of a cell. */
const cells = (row: string) =>
  row
    .split(/(?<!\\)\|/)
    .slice(1, -1)
    .map((cell) => cell.trim());
const rows = page.split("\n").filter((line) => line.startsWith("| ") && !line.startsWith("| value") && !line.startsWith("| ---"));

test("every row of docs/contributing/bounds.md names a bound and a test that exists under that title", () => {
  expect(rows.length).toBeGreaterThan(30);
  for (const row of rows) {
    const [value, drives, bound, held = ""] = cells(row);
    expect([value, drives, bound], row).not.toContain("");
    const [, path = "", title = ""] = /^`(test\/[\w./-]+\.ts)`: (.+)$/.exec(held) ?? [];
    expect(path, `${row}: no test is named`).not.toBe("");
    expect(readFileSync(join(root, path), "utf8"), row).toContain(title);
  }
});
