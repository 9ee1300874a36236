import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { expect, test } from "vitest";
import { allEndpoints } from "../../harness/all-endpoints.ts";

const page = readFileSync(new URL("../../../docs/endpoints.md", import.meta.url), "utf8");
const sections = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((text) => [/^`(.+?)`\n/.exec(text)?.[1] ?? "", text] as const),
);

/** An OpenAPI document is too long for an example. */
const documented = (await allEndpoints()).flatMap((endpoint) => {
  const schemas = Object.values(endpoint.answers).flatMap(({ schema }) => (schema === undefined ? [] : [schema]));
  const name = `${endpoint.method} ${endpoint.path.replace(/:(\w+)/g, "{$1}")}`;
  return schemas.length === 0 || name === "GET /v1/openapi.json" ? [] : [{ name, schemas }];
});

test("there are endpoints to check", () => {
  expect(documented.length).toBeGreaterThan(16);
});

test.each(documented)("$name: the page shows an answer, with each field of its schema and no other", ({ name, schemas }) => {
  const examples = [...(sections.get(name) ?? "").matchAll(/^```json\n(.*?)^```/gms)].map(([, json = ""]) => JSON.parse(json) as unknown);
  const answers = examples.filter((example) =>
    schemas.some((schema) => {
      const read = schema.safeParse(example);
      return read.success && isDeepStrictEqual(read.data, example);
    }),
  );
  expect(answers.length, JSON.stringify(examples)).toBeGreaterThan(0);
});
