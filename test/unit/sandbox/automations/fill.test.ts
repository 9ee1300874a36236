import fc from "fast-check";
import { expect, test } from "vitest";
import { fillJson, fillText } from "../../../../src/sandbox/automations/fill.ts";

test("names are filled in, unknown ones leave nothing, and what the data says is not read again", () => {
  expect(fillText("{{a}}-{{ b c }}-{{x}}-{{toString}}", { a: "{{b c}}$&", "b c": "2" })).toBe("{{b c}}$&-2--");
});

test("in JSON every text is filled in, and nothing else changes", () => {
  const body = { a: ["{{n}}", 1, null, { "{{n}}": true }], b: "n" };
  expect(fillJson(body, { n: "7" })).toEqual({ a: ["7", 1, null, { "{{n}}": true }], b: "n" });
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      fc.pre(!JSON.stringify(value).includes("{{"));
      expect(fillJson(value, { n: "7" })).toEqual(value);
    }),
  );
});
