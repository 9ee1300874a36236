import fc from "fast-check";
import { expect, test } from "vitest";
import { enrich } from "../../../src/deliver/compose.ts";

const relay = { deliveryId: "dlv_1", route: "r", note: 'ñ \u2028 "quoted"' };

test("adds one member to a JSON object and keeps every byte before it", () => {
  const blank = fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 3 });
  fc.assert(
    fc.property(fc.dictionary(fc.string(), fc.jsonValue()), blank, blank, fc.nat(3), (object, before, after, indent) => {
      const body = Buffer.from(before + JSON.stringify(object, null, indent) + after);
      const enriched = enrich(body, relay);
      expect(JSON.parse(enriched.toString("utf8"))).toEqual({ ...JSON.parse(body.toString("utf8")), relay });
      const kept = body.lastIndexOf("}");
      expect(enriched.subarray(0, kept)).toEqual(body.subarray(0, kept));
    }),
  );
});

test("keeps numbers, escapes and the order of members", () => {
  const text = '{"b": 12345678901234567890, "a":"\\u00f1\\/", "n":1.0 }';
  expect(enrich(Buffer.from(text), { route: "r" }).toString()).toBe(`${text.slice(0, -1)},"relay":{"route":"r"}}`);
});

test("leaves a body that is not an object unchanged", () => {
  for (const text of ["", "{", "}", "[]", '"{}"', "42", " ", "text}"]) {
    expect(enrich(Buffer.from(text), relay).toString()).toBe(text);
  }
});
