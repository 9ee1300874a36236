import fc from "fast-check";
import { expect, test } from "vitest";
import { enrich } from "../../../src/deliver/compose.ts";

const relay = { deliveryId: "dlv_1", route: "r", note: 'ñ \u2028 "quoted"' };

test("an enriched object is the original with one more member, and every byte before it as it was", () => {
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

test("numbers, escapes and member order are not touched: nothing is serialised again", () => {
  const text = '{"b": 12345678901234567890, "a":"\\u00f1\\/", "n":1.0 }';
  expect(enrich(Buffer.from(text), { route: "r" }).toString()).toBe(`${text.slice(0, -1)},"relay":{"route":"r"}}`);
});

test("what is no object stays as it is", () => {
  for (const text of ["", "{", "}", "[]", '"{}"', "42", " ", "text}"]) {
    expect(enrich(Buffer.from(text), relay).toString()).toBe(text);
  }
});
