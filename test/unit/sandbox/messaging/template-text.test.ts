import { expect, test } from "vitest";
import { fillTemplate } from "../../../../src/sandbox/messaging/messaging.ts";
import type { TemplateRecord, TemplateVariable } from "../../../../src/sandbox/world.ts";

const template = (body: string, variables: TemplateVariable[]) =>
  ({ body, variables }) as TemplateRecord;
const nombre: TemplateVariable = {
  name: "nombre",
  label: "Nombre",
  example: "Ana",
  fallback: "cliente",
};
const deuda: TemplateVariable = { name: "deuda", label: "Deuda", example: "$ 100" };

test.each<
  [
    string,
    Record<string, string>,
    { name: string | null; attributes: Record<string, string> } | null,
    string,
  ]
>([
  [
    "sent first",
    { nombre: "Eva", deuda: "1" },
    { name: "Lucía", attributes: { deuda: "2" } },
    "Eva debe 1",
  ],
  ["then the contact", {}, { name: "Lucía", attributes: { deuda: "2" } }, "Lucía debe 2"],
  [
    "`nombre` is no attribute",
    {},
    { name: null, attributes: { nombre: "no", deuda: "2" } },
    "cliente debe 2",
  ],
  ["then fallback, then example", {}, { name: null, attributes: {} }, "cliente debe $ 100"],
  ["no contact yet", {}, null, "cliente debe $ 100"],
  ["an empty datum is none", {}, { name: "", attributes: { deuda: "" } }, "cliente debe $ 100"],
  ["an empty text may be sent", { nombre: "" }, { name: "Lucía", attributes: {} }, " debe $ 100"],
  [
    "values are not filled in again",
    { nombre: "{{deuda}} $& $1" },
    null,
    "{{deuda}} $& $1 debe $ 100",
  ],
  ["a variable nobody declared is let pass", { otra: "x" }, null, "cliente debe $ 100"],
])("%s", (_name, sent, contact, text) => {
  expect(
    fillTemplate(
      template("{{nombre}} debe {{ deuda }}", [nombre, deuda]),
      sent,
      contact ?? undefined,
    ),
  ).toBe(text);
});

test("places of variables that are not declared stay, and names of Object's own are names like others", () => {
  const odd: TemplateVariable = { name: "constructor", label: "", example: "E" };
  expect(
    fillTemplate(
      template("{{otra}} {{constructor}} {{}} {nombre}", [odd]),
      {},
      { name: null, attributes: {} },
    ),
  ).toBe("{{otra}} E {{}} {nombre}");
});
