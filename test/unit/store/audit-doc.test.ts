import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { auditRules } from "../../../src/model/audit.ts";

const page = readFileSync(new URL("../../../docs/audit.md", import.meta.url), "utf8");

test("docs/audit.md has every rule of the audit as the code says it, and no other", () => {
  const part = page.slice(page.indexOf("| rule |"), page.indexOf("- **Retention**"));
  const rows = [...part.matchAll(/^\| `([^`]+)` \| (.+) \|$/gm)].map(([, rule, meaning]) => [rule, meaning]);
  expect(rows).toEqual(Object.entries(auditRules));
});

test("it has every next step of explain with the meaning that model/answers.ts gives", () => {
  const port = readFileSync(new URL("../../../src/model/answers.ts", import.meta.url), "utf8").replaceAll("\\`", "`");
  const rowsIn = (text: string) => [...text.matchAll(/^\| `([a-z ]+)` \| (.+) \|(?:`,)?$/gm)].map(([, kind, meaning]) => [kind, meaning]);
  const documented = rowsIn(page.slice(page.indexOf("| next |")));
  expect(documented.length).toBe(10);
  expect(documented).toEqual(rowsIn(port));
});
