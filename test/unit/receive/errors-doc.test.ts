import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { errorCodes, RelayError } from "../../../src/model/errors.ts";

const page = readFileSync(new URL("../../../docs/reference/errors.md", import.meta.url), "utf8");

test("the registry is sorted by status", () => {
  const statuses = Object.values(errorCodes).map(({ status }) => status);
  expect(statuses).toEqual(statuses.toSorted((a, b) => a - b));
});

test("the example has the shape of an error", () => {
  const example = JSON.parse(/```json\n(.*?)```/s.exec(page)?.[1] ?? "null") as { code: keyof typeof errorCodes; error: string };
  expect(new RelayError(example.code, example.error).toBody()).toEqual(example);
  expect(errorCodes).toHaveProperty(example.code);
});
