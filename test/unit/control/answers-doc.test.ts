import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { expect, test } from "vitest";
import type { Endpoint } from "../../../src/control/endpoint.ts";
import { createHttp } from "../../../src/control/http.ts";
import { addControlRoutes } from "../../../src/control/routes.ts";

const page = readFileSync(new URL("../../../docs/endpoints.md", import.meta.url), "utf8");
const sections = new Map(
  page
    .split(/^### /m)
    .slice(1)
    .map((text) => [/^`(.+?)`\n/.exec(text)?.[1] ?? "", text] as const),
);

/** Every endpoint of the control API. No request is made, so the ports are empty. */
function endpoints(): Endpoint[] {
  const found = new Set<Endpoint>();
  const http = createHttp(null, () => {});
  http.addHook("onRoute", ({ config }) => {
    if (config?.endpoint !== undefined) found.add(config.endpoint);
  });
  addControlRoutes(http, { listening: { version: "" } } as unknown as Parameters<typeof addControlRoutes>[1]);
  return [...found];
}

const documented = endpoints().flatMap((endpoint) => {
  const schemas = Object.values(endpoint.answers).flatMap(({ schema }) => (schema === undefined ? [] : [schema]));
  const name = `${endpoint.method} ${endpoint.path.replace(/:(\w+)/g, "{$1}")}`;
  return schemas.length === 0 ? [] : [{ name, schemas }];
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
