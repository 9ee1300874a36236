import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { seededFaults } from "../../faults/faults.ts";
import { readPage, root } from "../../harness/pages.ts";

const sources = globSync("src/**/*.{ts,js}", { cwd: root }).map(readPage);

test.each(seededFaults)("the source has the text of the fault: $name", ({ find, put, tests }) => {
  expect(sources.reduce((sum, source) => sum + source.split(find).length - 1, 0)).toBe(1);
  expect(put).not.toBe(find);
  for (const path of tests) expect(existsSync(join(root, path)), path).toBe(true);
});

test("each promise has a fault, and there are thirty", () => {
  const page = readPage("docs/contributing/promises.md");
  const promises = [...page.matchAll(/^## (.+)$/gm)].map(([, heading]) => heading);
  const named = new Set(seededFaults.map(({ promise }) => promise));
  expect([...named].filter((promise) => !promises.includes(promise))).toEqual([]);
  expect(promises.filter((promise) => !named.has(promise as string))).toEqual([
    "Failures",
    "Start and how-to pages",
  ]);
  expect(seededFaults.length).toBeGreaterThanOrEqual(30);
});
