import { isDeepStrictEqual } from "node:util";
import { expect, test } from "vitest";
import { examples } from "../../../src/control/openapi.ts";
import { allEndpoints } from "../../../src/model/endpoints/table.ts";

/** An OpenAPI document is too long for an example. */
const documented = allEndpoints.flatMap((endpoint) => {
  const schemas = Object.values(endpoint.answers).flatMap(({ schema }) =>
    schema === undefined ? [] : [schema],
  );
  return schemas.length === 0 || endpoint.name === "describe"
    ? []
    : [{ endpoint, name: endpoint.name, schemas }];
});

test("every endpoint has an example, and every example an endpoint", () => {
  expect(documented.length).toBeGreaterThan(16);
  expect(Object.keys(examples).toSorted()).toEqual(documented.map(({ name }) => name).toSorted());
});

test.each(documented)(
  "$name: its examples have each field of a schema and no other",
  ({ name, endpoint, schemas }) => {
    for (const { request, answer } of examples[name] ?? []) {
      const fits = schemas.some((schema) => {
        const read = schema.safeParse(answer);
        return read.success && isDeepStrictEqual(read.data, answer);
      });
      expect(fits, JSON.stringify(answer)).toBe(true);
      if (request !== undefined) expect(endpoint.body?.safeParse(request).error).toBeUndefined();
    }
  },
);
