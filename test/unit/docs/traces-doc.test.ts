import { readFileSync } from "node:fs";
import { expect, test } from "vitest";

const root = new URL("../../../", import.meta.url);
const page = readFileSync(new URL("docs/traces.md", root), "utf8");
const source = readFileSync(new URL("src/app/tracing.ts", root), "utf8");

/** The names in the first cells of the table with this head. */
function namesIn(head: string): string[] {
  const [, body = ""] = page.split(`| ${head} |`);
  const rows = (body.split("\n\n")[0] ?? "").split("\n").slice(2);
  return rows.flatMap((row) => [...(row.split("|")[1] ?? "").matchAll(/`([^`]+)`/g)].map(([, name = ""]) => name));
}

test("docs/traces.md lists the spans that there are", () => {
  const names = [...source.matchAll(/\bname: "(\w+)"/g)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(4);
  expect(new Set(namesIn("span | kind | parent | covers"))).toEqual(new Set(names));
});

test("docs/traces.md lists the attributes that there are", () => {
  const names = [...source.matchAll(/"((?:relay|http|error)\.[\w.]+)"/g)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(15);
  expect(new Set(namesIn("attribute | holds"))).toEqual(new Set(names));
});

test("docs/traces.md states the limits of the code", () => {
  const limits = readFileSync(new URL("src/observe/traces.ts", root), "utf8");
  expect(limits).toContain("const mostWaiting = 4096;");
  expect(limits).toContain("const exportEveryMs = 1_000;");
  expect(limits).toContain("const exportWithinMs = 3_000;");
  for (const text of ["4,096", "every second", "3 s"]) expect(page).toContain(text);
});
