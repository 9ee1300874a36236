// Compares docs/contributing/messaging-service-api.md, the tests beside this file, and
// docs/contributing/sandbox-conformance.md.
import { readdirSync, readFileSync } from "node:fs";
import { basename } from "node:path";
import { expect, test } from "vitest";
import { readRows, readTests } from "./table.ts";

const here = new URL(".", import.meta.url);
const docs = new URL("../../../../docs/contributing/", here);
const lines = readFileSync(new URL("messaging-service-api.md", docs), "utf8").split("\n");
const table = readFileSync(new URL("sandbox-conformance.md", docs), "utf8");
const stated = readRows(table, "## Lines with tests");
const silent = readRows(table, "## Lines without behavior");

const files = readdirSync(here).filter(
  (name) => name.endsWith(".test.ts") && name !== basename(import.meta.filename),
);
const tests = files.flatMap((file) =>
  readTests(readFileSync(new URL(file, here), "utf8")).map((name) => `\`${file}\` ${name}`),
);

test("the table of conformance has a test in every row, and every test is in a row", () => {
  expect(stated.length).toBeGreaterThan(150);
  const inRows = new Set(stated.map(([, , name]) => name));
  expect({
    "rows without a test": [...inRows].filter((name) => !tests.includes(name)),
  }).toStrictEqual({ "rows without a test": [] });
  expect({ "tests without a row": tests.filter((name) => !inRows.has(name)) }).toStrictEqual({
    "tests without a row": [],
  });
});

test("the table of conformance quotes of each line what stands there", () => {
  for (const [line, quoted] of [...stated, ...silent]) {
    const piece = /^"(.+)"$/.exec(quoted)?.[1];
    expect(piece, `a quoted piece of line ${line}`).toBeDefined();
    expect(lines[Number(line) - 1], `line ${line}`).toContain(piece);
  }
});

test("the table of conformance knows every line of the document, as stating a behaviour or not, and never as both", () => {
  const says = (line: string) =>
    line.trim() !== "" && !/^#+ /.test(line) && !/^\|( ---\s*\|)+$/.test(line);
  const withTest = new Set(stated.map(([line]) => Number(line)));
  const without = new Set(silent.map(([line]) => Number(line)));
  const unknown = lines.flatMap((line, place) =>
    says(line) && !withTest.has(place + 1) && !without.has(place + 1)
      ? [`${place + 1}: ${line}`]
      : [],
  );
  expect(unknown).toStrictEqual([]);
  expect([...withTest].filter((line) => without.has(line))).toStrictEqual([]);
  for (const [line, , why] of silent)
    expect(why, `why line ${line} has no test`).toMatch(/\w+ \w+/);
});

test("conformance tests have names of their own that begin with the section that they come from", () => {
  const sections = lines
    .filter((line) => line.startsWith("#"))
    .map((line) => line.replace(/^#+ /, ""));
  const names = tests.map((name) => name.slice(name.indexOf(" ") + 1));
  expect(names.filter((name, place) => names.indexOf(name) !== place)).toStrictEqual([]);
  const homeless = names.filter((name) => {
    // `Errors, Codes: …` is section "Codes" of "Errors".
    const [chapter = "", section = chapter] = name.slice(0, name.indexOf(": ")).split(", ");
    return ![chapter, section].every((part) =>
      sections.some((heading) => heading.startsWith(part)),
    );
  });
  expect(homeless).toStrictEqual([]);
});

test("conformance tests never touch the relay's own client", () => {
  for (const file of readdirSync(here)) {
    const imports = [...readFileSync(new URL(file, here), "utf8").matchAll(/from "([^"]+)"/g)].map(
      ([, path = ""]) => path,
    );
    const ours = imports.filter(
      (path) => path.includes("/src/") && !path.endsWith("/src/sandbox/start-sandbox.ts"),
    );
    expect(ours, file).toStrictEqual([]);
  }
});
