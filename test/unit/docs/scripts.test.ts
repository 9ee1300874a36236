import { existsSync, globSync } from "node:fs";
import { expect, test } from "vitest";
import { readPage, root } from "../../harness/pages.ts";
import { longest } from "../../setup/longest-first.ts";

test("no script counts on npm to run another one before or after it", () => {
  expect(readPage(".npmrc")).toMatch(/^ignore-scripts=true$/m);
  const names = Object.keys(
    (JSON.parse(readPage("package.json")) as { scripts: Record<string, string> }).scripts,
  );
  expect(
    names.filter((name) => names.some((other) => [`pre${other}`, `post${other}`].includes(name))),
  ).toEqual([]);
  // npm would run these for its own commands.
  expect(
    names.filter((name) =>
      /^(prepare|(pre|post)(install|pack|publish|publishOnly|version))$/.test(name),
    ),
  ).toEqual([]);
});

test("`npm run test:rest` runs every test of e2e and bench, and the longest files exist", () => {
  const files = globSync("test/{e2e,bench}/**/*.test.ts", { cwd: root });
  expect(files).not.toEqual([]);
  expect(files.filter((file) => !readPage(file).includes("// @module-tag slow: "))).toEqual([]);
  expect(longest.filter((file) => !existsSync(`${root}/${file}`))).toEqual([]);
});
