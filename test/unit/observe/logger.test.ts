import { expect, test } from "vitest";
import { createRedactor } from "../../../src/model/redact.ts";
import { Secret } from "../../../src/model/secret.ts";
import { createLogger, createPrivacy } from "../../../src/observe/logger.ts";

const secret = "sk_live_0123456789";
const phone = "+5491155551234";

function logged(pii: "masked" | "clear", fields: object): string {
  const lines: string[] = [];
  const redactor = createRedactor(new Secret(secret));
  createLogger({ level: "info", pii }, { write: (line) => void lines.push(line) }, redactor).info(
    fields,
    "said",
  );
  return lines.join("");
}

test("logs an error with its causes, and masks its name, code, message, stack and causes", () => {
  const cause = Object.assign(new Error(`about ${phone}`), { code: `E_${secret}` });
  const error = Object.assign(new Error(`Bearer ${secret}`, { cause }), {
    name: `Error of ${phone}`,
    command: { args: [phone] },
  });
  const text = logged("masked", { err: error });
  expect(JSON.parse(text)).toMatchObject({
    err: {
      type: "Error of [phone]",
      message: "Bearer [secret]",
      cause: { code: "E_[secret]", message: "about [phone]" },
    },
  });
  expect(text).not.toContain(secret);
  expect(text).not.toContain(phone.slice(1));
});

test("ends a chain of causes that leads back to its beginning", () => {
  const error = new Error("round");
  error.cause = error;
  expect(JSON.parse(logged("masked", { err: error })).err.cause.cause.cause).not.toHaveProperty(
    "cause",
  );
});

test("removes secrets from any field, also with pii in clear", () => {
  for (const pii of ["masked", "clear"] as const) {
    expect(logged(pii, { anything: { deep: [`x=${encodeURIComponent(secret)}`] } })).toContain(
      '"x=[secret]"',
    );
  }
  const { text, id, delivery, kind } = createPrivacy("clear", createRedactor(new Secret(secret)));
  expect([text(`${phone} ${secret}`), id("event", phone), delivery("dlv_x"), kind("A b")]).toEqual([
    `${phone} [secret]`,
    phone,
    "dlv_x",
    "A b",
  ]);
});
