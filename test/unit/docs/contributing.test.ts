import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { describe, expect, test } from "vitest";

const page = readFileSync("CONTRIBUTING.md", "utf8");
const sections = page
  .split(/^### /m)
  .slice(1)
  .map((text) => text.split(/^## /m)[0] as string);

/** The paths in the first column of a section's table. */
function listed(section: string): string[] {
  return [...section.matchAll(/^\| (`.*?`(?:, `.*?`)*) \|/gm)].flatMap(([, cell]) =>
    [...(cell as string).matchAll(/`(.*?)`/g)].map(([, path]) => path as string),
  );
}

/** Files below the places that match, as grep -rlE lists them. */
function filesWith(pattern: RegExp, places: readonly string[]): string[] {
  const files = places
    .flatMap((place) => globSync(place))
    .flatMap((place) => (statSync(place).isDirectory() ? globSync(`${place}/**/*.ts`) : [place]));
  return files.filter((file) => pattern.test(readFileSync(file, "utf8"))).sort();
}

test("lists of files exist for each kind of change", () => {
  expect(sections.map((section) => section.split("\n")[0])).toEqual([
    "A destination",
    "A format",
    "A status",
    "A command",
    "An endpoint",
    "A filter of a list",
    "A derived field of a list",
    "A setting",
  ]);
});

describe.each(sections.map((section) => ({ title: section.split("\n")[0] as string, section })))(
  "$title",
  ({ section }) => {
    test("names files that exist", () => {
      const paths = [...section.matchAll(/`((?:src|test|docs|config)\/[^`\s*]+\.\w+)`/g)].map(
        ([, path]) => path as string,
      );
      expect(paths.length).toBeGreaterThan(0);
      expect(paths.filter((path) => !existsSync(path))).toEqual([]);
    });

    test("says how many files it lists", () => {
      const number = ["Three", "Four", "Five", "Six", "Seven"][listed(section).length - 3];
      expect(section).toMatch(new RegExp(`^${number} files\\.`, "m"));
    });

    test("lists the files of src that its example is in", () => {
      const [, pattern, places] = section.match(/^grep -rlE "(.+)" (.+)$/m) ?? [];
      const files = filesWith(new RegExp(pattern as string), (places as string).split(" "));
      expect(files.length).toBeGreaterThan(0);
      expect(files).toEqual(
        listed(section)
          .filter((path) => path.startsWith("src/"))
          .sort(),
      );
    });
  },
);

test("the table of folders is the tree", () => {
  const table = page.slice(page.indexOf("## The tree"), page.indexOf("## Where a change goes"));
  const named = [...table.matchAll(/^\| (`\w+`(?:, `\w+`)*) \|/gm)].flatMap(([, cell]) =>
    [...(cell as string).matchAll(/`(\w+)`/g)].map(([, name]) => name),
  );
  expect(named.sort()).toEqual(
    globSync("src/*/")
      .map((path) => path.slice("src/".length))
      .sort(),
  );
});
