// Slow: two linters read the whole document twice.
import { createConfig, lintFromString } from "@redocly/openapi-core";
import spectral, { type RulesetDefinition } from "@stoplight/spectral-core";
import rulesets from "@stoplight/spectral-rulesets";
import { expect, test } from "vitest";
import { describe } from "../../../src/control/openapi.ts";

type Json = Readonly<Record<string, unknown>>;
const document = describe("1.0.0") as Json;

async function redocly(checked: Json): Promise<string[]> {
  const problems = await lintFromString({
    source: JSON.stringify(checked),
    config: await createConfig({ extends: ["recommended"] }),
  });
  return problems.map(
    ({ ruleId, message, location }) => `${ruleId}: ${message} (${location[0]?.pointer})`,
  );
}

async function spectralOas(checked: Json): Promise<string[]> {
  const linter = new spectral.Spectral();
  linter.setRuleset({ extends: [rulesets.oas as RulesetDefinition] });
  const problems = await linter.run(JSON.stringify(checked));
  return problems.map(({ code, message, path }) => `${code}: ${message} (${path.join("/")})`);
}

test.each([
  ["Redocly's recommended rules", redocly],
  ["Spectral's rules for OpenAPI", spectralOas],
])("%s find nothing to warn of, and find a fault", { tags: ["slow"] }, async (_, lint) => {
  expect(await lint(document)).toEqual([]);
  const { paths, ...rest } = document;
  const [[path, operations] = ["", {}]] = Object.entries(
    paths as Record<string, Record<string, Json>>,
  );
  const [[method, operation] = ["", {}]] = Object.entries(operations);
  const faulty = {
    ...rest,
    paths: {
      ...(paths as Json),
      [path]: { [method]: { ...operation, operationId: undefined, responses: {} } },
    },
  };
  expect(await lint(faulty)).not.toEqual([]);
});

/**
 * The places of properties and parameters without a description. A schema that only refers to a
 * named one has that one's.
 */
function* undescribed(value: unknown, at = "#"): Generator<string> {
  if (typeof value !== "object" || value === null) return;
  const { properties, description } = value as {
    properties?: Record<string, Json>;
    description?: string;
  };
  const isNarrowing = at.includes("/components/responses/");
  if (properties !== undefined && !Array.isArray(value) && !isNarrowing) {
    for (const [name, field] of Object.entries(properties))
      if (!isText(field["description"])) yield `${at}/${name}`;
  }
  if ("in" in value && "schema" in value && !isText(description))
    yield `${at} ${(value as { name?: string }).name}`;
  if (/^#\/components\/schemas\/[^/]+$/.test(at) && !isText(description)) yield at;
  for (const [key, part] of Object.entries(value)) yield* undescribed(part, `${at}/${key}`);
}

/** A sentence: it ends with a mark, or with a table. */
const isText = (description: unknown): boolean =>
  typeof description === "string" && /[.|]$/.test(description.trim());

test("every field, parameter and schema has a description", () => {
  expect([...undescribed(document)]).toEqual([]);
});

test("no field has a bound that is only JavaScript's", () => {
  expect(JSON.stringify(document)).not.toContain(String(Number.MAX_SAFE_INTEGER));
});

test("every tag has a description", () => {
  for (const tag of document["tags"] as readonly Json[])
    expect(tag).toEqual({ name: expect.any(String), description: expect.stringMatching(/\.$/) });
});
