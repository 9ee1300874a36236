import { expect, test } from "vitest";
import { makeExamples } from "../../../.ci/reference/examples.ts";
import { examples } from "../../../src/control/openapi.ts";

// That they fit the schemas: test/unit/control/answers-doc.test.ts.
test("the examples of the reference are the answers of a relay", async () => {
  expect(await makeExamples()).toEqual(examples);
});
