import { describe, expect, test } from "vitest";
import { messageSchema, runBodySchema, sendBodySchema } from "../../../src/service/endpoints.ts";

describe("a send body (messaging-service-api.md, POST /messages)", () => {
  const to = "+5491155550000";
  const template = { id: "0198f1aa-0000-8000-8000-00000000000a" };

  test.each([
    ["text", { to, text: "hola" }],
    ["template", { to, template }],
    [
      "template with variables, sending number and a field to come",
      { to, template: { ...template, variables: { nombre: "Ana" } }, phoneNumberId: "1", nuevo: 1 },
    ],
    ["shortest and longest", { to: `+${"1".repeat(5)}`, text: "a".repeat(4096) }],
    ["longest phone", { to: `+${"1".repeat(31)}`, text: "a" }],
  ])("%s", (_name, body) => {
    expect(sendBodySchema.parse(body)).toEqual(body);
  });

  test.each([
    ["both", { to, text: "hola", template }, [""]],
    ["neither", { to }, [""]],
    ["no phone", { text: "hola" }, ["to"]],
    ["no plus", { to: "5491155550000", text: "hola" }, ["to"]],
    ["too short a phone", { to: "+1234", text: "hola" }, ["to"]],
    ["too long a phone", { to: `+${"1".repeat(32)}`, text: "hola" }, ["to"]],
    ["empty text", { to, text: "" }, ["text"]],
    ["too long a text", { to, text: "a".repeat(4097) }, ["text"]],
    ["a variable that is no text", { to, template: { ...template, variables: { n: 5 } } }, ["template.variables.n"]],
  ])("not: %s", (_name, body, paths) => {
    const read = sendBodySchema.safeParse(body);
    expect(read.error?.issues.map(({ path }) => path.join("."))).toEqual(paths);
  });
});

test("a message: any status word, an error code as text, ids of any form", () => {
  const message = { id: "7", wamid: "w", status: "enviando", conversationId: "c", telefono: { x: [1] } };
  for (const [errorCode, read] of [
    [131026, "131026"],
    ["131026", "131026"],
    [null, null],
    [undefined, null],
    [{}, null],
    [true, null],
  ]) {
    expect(messageSchema.parse({ ...message, errorCode })).toEqual({ ...message, errorCode: read });
  }
  expect(messageSchema.parse({ wamid: "w", status: "sent" })).toMatchObject({ wamid: "w", status: "sent" });
  for (const bad of [{ wamid: null }, { wamid: "" }, { status: 5 }, { status: null }])
    expect(messageSchema.safeParse({ ...message, ...bad }).success).toBe(false);
});

test("a run body: nothing in it is known to be required; data maps to text", () => {
  expect(runBodySchema.parse({})).toEqual({});
  expect(runBodySchema.safeParse({ data: { n: 1 } }).success).toBe(false);
});
