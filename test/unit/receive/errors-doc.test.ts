import { expect, test } from "vitest";
import { errorCodes, RelayError } from "../../../src/model/errors.ts";
import { codeBlocks, readPage } from "../../harness/pages.ts";

const page = readPage("docs/reference/errors.md");

test("the registry is sorted by status", () => {
  const statuses = Object.values(errorCodes).map(({ status }) => status);
  expect(statuses).toEqual(statuses.toSorted((a, b) => a - b));
});

test("the example has the shape of an error", () => {
  const example = JSON.parse(codeBlocks(page, "json")[0] ?? "null") as {
    code: keyof typeof errorCodes;
    error: string;
  };
  expect(new RelayError(example.code, example.error).toBody()).toEqual(example);
  expect(errorCodes).toHaveProperty(example.code);
});
