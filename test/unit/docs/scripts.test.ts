import { expect, test } from "vitest";
import { read } from "./pages.ts";

test("no script counts on npm to run another one before or after it", () => {
  expect(read(".npmrc")).toMatch(/^ignore-scripts=true$/m);
  const names = Object.keys((JSON.parse(read("package.json")) as { scripts: Record<string, string> }).scripts);
  expect(names.filter((name) => names.some((other) => [`pre${other}`, `post${other}`].includes(name)))).toEqual([]);
  // npm would run these for its own commands.
  expect(names.filter((name) => /^(prepare|(pre|post)(install|pack|publish|publishOnly|version))$/.test(name))).toEqual([]);
});
