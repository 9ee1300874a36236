import fc from "fast-check";
import { expect, test } from "vitest";
import { fillBody, fillText } from "../../../../src/sandbox/automations.ts";

test("names are filled in, unknown ones leave nothing, and what the data says is not read again", () => {
  expect(fillText("{{a}}-{{ b c }}-{{x}}-{{toString}}", { a: "{{b c}}$&", "b c": "2" })).toBe(
    "{{b c}}$&-2--",
  );
});

test("in JSON every text is filled in, and nothing else changes", () => {
  const body = { a: ["{{n}}", 1, null, { "{{n}}": true }], b: "n" };
  expect(fillBody(body, { n: "7" })).toEqual({ a: ["7", 1, null, { "{{n}}": true }], b: "n" });
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      fc.pre(!JSON.stringify(value).includes("{{"));
      // As it is sent: JSON writes -0 as 0.
      expect(JSON.stringify(fillBody({ value }, { n: "7" }))).toBe(JSON.stringify({ value }));
    }),
  );
});

test("a body that is JSON as a text gets values as JSON writes them; any other text stays a text", () => {
  const data = { n: 'Ana "la Negra"\n\\', x: '1","admin":true,"y":"' };
  expect(fillBody('{"nombre":"{{n}}","x":["{{x}}"]}', data)).toEqual({
    nombre: data.n,
    x: [data.x],
  });
  expect(fillBody('{"n":{{n}}}', { n: "7" })).toEqual({ n: 7 });
  expect(fillBody('{"n":{{x}}}', data)).toBe(`{"n":${data.x}}`);
  expect(fillBody("hola {{n}}", data)).toBe(`hola ${data.n}`);
  expect(fillBody({ n: "{{n}}" }, data)).toEqual({ n: data.n });
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (n) => {
      expect(fillBody('{"n":"{{n}}"}', { n })).toEqual({ n });
    }),
  );
});
