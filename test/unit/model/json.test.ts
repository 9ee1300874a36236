import { expect, test } from "vitest";
import { parseEnvelope } from "../../../src/model/envelope.ts";
import { fieldsSchema, subjectOf } from "../../../src/model/event.ts";
import { parseExact } from "../../../src/model/json.ts";

test("keeps the digits of integers that JavaScript would round, and no other value becomes text", () => {
  const text =
    '{"a":12345678901234567890,"b":[-9007199254740993],"c":9007199254740991,"d":1.5,"e":"12345678901234567890","f":1e30}';
  expect(parseExact(text)).toEqual({
    a: "12345678901234567890",
    b: ["-9007199254740993"],
    c: 9007199254740991,
    d: 1.5,
    e: "12345678901234567890",
    f: 1e30,
  });
  expect(() => parseExact("{")).toThrow(SyntaxError);
});

test.each([
  ["131026", "131026"],
  ['"131026"', "131026"],
  ['{"code":1}', null],
])("reads a webhook's errorCode %s as %s", (given, code) => {
  const body = Buffer.from(
    `{"id":"e","event":"message.status","createdAt":"2026-11-22T12:00:00Z","data":{"wamid":"w","status":"failed","errorCode":${given}}}`,
  );
  const parsed = parseEnvelope(body);
  if (!parsed.ok) throw new Error(parsed.error);
  expect(subjectOf(parsed.envelope, fieldsSchema.parse({}))).toMatchObject({
    status: "failed",
    errorCode: code,
  });
});
