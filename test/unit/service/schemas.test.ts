import { expect, test } from "vitest";
import { messageSchema } from "../../../src/service/endpoints.ts";

test("a message: any status word, an error code as text, ids of any form", () => {
  const message = {
    id: "7",
    wamid: "w",
    status: "enviando",
    conversationId: "c",
    telefono: { x: [1] },
  };
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
  expect(messageSchema.parse({ wamid: "w", status: "sent" })).toMatchObject({
    wamid: "w",
    status: "sent",
  });
  for (const bad of [{ wamid: null }, { wamid: "" }, { status: 5 }, { status: null }])
    expect(messageSchema.safeParse({ ...message, ...bad }).success).toBe(false);
});
