import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { longestPattern, matchedLength, mostInstructions } from "../../../src/route/pattern.ts";
import { createPlanner } from "../../../src/route/plan.ts";
import { routingSchema } from "../../../src/route/settings.ts";
import { conditionLimits, whereOperators } from "../../../src/route/where.ts";
import { readPage } from "../../harness/pages.ts";
import { anEvent, anUnknown, aTracking } from "./an-event.ts";

const page = readPage("docs/concepts/routing.md");
/** Each route of the page, with the events that follow it. */
const examples = [...page.matchAll(/^```yaml route\n(.*?)^```\n```jsonl\n(.*?)^```$/gms)].map(
  ([, yaml = "", lines = ""]) => ({
    route: routingSchema.parse(parse(yaml)),
    lines: lines.trim().split("\n"),
  }),
);

test("every example of a route has events next to it", () => {
  expect(examples.length).toBe(page.match(/^```yaml route$/gm)?.length);
  expect(examples.length).toBeGreaterThan(5);
});

describe.each(examples)("$route.name", ({ route, lines }) => {
  test("shows an event that it matches", () => {
    expect(lines.some((line) => line.includes('"verdict": "deliver"'))).toBe(true);
  });

  test.each(lines)("%s", (line) => {
    const { verdict, disposition, unknown = "park", tracked, ...parts } = JSON.parse(line);
    const { event, status, errorCode, data, ...known } = parts;
    const ofEvent = Object.fromEntries(
      Object.entries({ event, status, errorCode, data }).filter(([, value]) => value !== undefined),
    );
    const tracking = tracked === false ? anUnknown(known) : aTracking(known);
    const plan = createPlanner([route], unknown)(anEvent(ofEvent), tracking);
    const [only] = plan.verdicts;
    expect(only?.verdict === "skip" ? `skip: ${only.reason}` : only?.verdict).toBe(verdict);
    if (disposition !== undefined) expect(plan.disposition).toBe(disposition);
  });
});

test("the table has every operator in the order of the reasons", () => {
  const table = page.slice(page.indexOf("| operator |"), page.indexOf("- **Paths**"));
  const rows = table.split("\n").flatMap((row) => (row.split("|")[1] ?? "").match(/\$\w+/g) ?? []);
  expect(rows).toEqual([...whereOperators, "$or", "$and", "$not"]);
});

test("the page has the limits of patterns and conditions", () => {
  const bounds = [
    matchedLength,
    longestPattern,
    mostInstructions,
    ...Object.values(conditionLimits),
  ];
  const section = page.slice(page.indexOf("## Patterns"), page.indexOf("## emit"));
  for (const bound of bounds) expect(section).toContain(`${bound.toLocaleString("en")} `);
});
