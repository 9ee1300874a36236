import { globSync } from "node:fs";
import { basename } from "node:path";
import { expect, test } from "vitest";
import { cellsOf, readPage, root } from "../../harness/pages.ts";

const page = readPage("docs/contributing/promises.md");
const rows = [
  ...page.matchAll(/^\| (?!what |page |---)(.+?) \| `(test\/[\w./-]+\.ts)`: (.+) \|$/gm),
].map(([, what = "", path = "", title = ""]) => ({
  what,
  path,
  title,
}));
const tableLines = page
  .split("\n")
  .filter((line) => line.startsWith("| ") && !/^\| (what|page) /.test(line));

/** The titles of a file's tests, with placeholders as written. */
function titlesIn(path: string): string[] {
  const source = readPage(path);
  const calls = source.matchAll(
    /\btest(?:\.concurrent)?(?:\.\w+\([^;]*?\))?\(\s*(?:"((?:[^"\\]|\\.)+)"|`([^`]+)`),/g,
  );
  return [...calls].map(([, plain, template]) => plain ?? template ?? "");
}

test("every row of docs/contributing/promises.md names a test that exists", () => {
  expect(rows.length).toBeGreaterThan(60);
  expect(tableLines).toHaveLength(rows.length);
  for (const { path, title } of rows)
    expect(titlesIn(path), path).toContainEqual(expect.stringContaining(title));
});

test("every row of docs/contributing/bounds.md names a bound and a test that exists under that title", () => {
  const bounds = readPage("docs/contributing/bounds.md").match(/^\| (?!value).+$/gm) ?? [];
  expect(bounds.length).toBeGreaterThan(30);
  for (const row of bounds) {
    const [value, drives, bound, held = ""] = cellsOf(row);
    expect([value, drives, bound], row).not.toContain("");
    const [, path = "", title = ""] = /^`(test\/[\w./-]+\.ts)`: (.+)$/.exec(held) ?? [];
    expect(title, `${row}: no test is named`).not.toBe("");
    expect(readPage(path), row).toContain(title);
  }
});

test("every promise of the README and every start and how-to page has a row", () => {
  const sections = new Set(
    [...page.matchAll(/^## (.+)$/gm)].map(([, heading = ""]) => heading.toLowerCase()),
  );
  const promised = readPage("README.md").split("## What it promises")[1]?.split("\n## ")[0] ?? "";
  const promises = [...promised.matchAll(/^\d\. \*\*(.+?)\.?\*\*/gm)].map(([, promise = ""]) =>
    promise.toLowerCase(),
  );
  expect(promises.length).toBeGreaterThan(5);
  const headings = new Map([
    ["in order per message", "ordered per message"],
    ["logs and metrics show no phone number and no secret", "personal data stays private"],
  ]);
  for (const promise of promises)
    expect(sections, promise).toContain(headings.get(promise) ?? promise);
  const named = rows.map(({ what }) => what);
  for (const path of globSync("docs/{start,how-to}/*.md", { cwd: root })) {
    expect(named, path).toContain(`[${basename(path, ".md")}](../${path.slice("docs/".length)})`);
  }
});
