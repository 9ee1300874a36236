import { expect, test } from "vitest";
import { createSigner, signingSchema } from "../../../src/sandbox/signing.ts";
import { isReported, messageStatuses, reaches, supersedes } from "../../../src/sandbox/statuses.ts";

test.each([
  [{}, "header: is needed"],
  [{ header: "x", content: "{timestamp}{body}" }, "content: has {timestamp}"],
  [{ header: "x", content: "{id}{body}" }, "content: has {id}"],
])("%j cannot be signed by", (settings, message) => {
  const [issue] = signingSchema.safeParse(settings).error?.issues ?? [];
  expect(`${issue?.path.join(".")}: ${issue?.message}`).toContain(message);
});

test.each([
  ["hex", "0"],
  ["base64", "á"],
  ["whsec", "whsec_?"],
] as const)("a secret that is not %s is refused, unquoted", (secretEncoding, secret) => {
  expect(() => createSigner({ header: "x", secretEncoding }, secret)).toThrow(
    /^the secret is not (hex|base64)/,
  );
});

test("a status takes the place of an earlier one only", () => {
  expect(messageStatuses.filter((status) => supersedes("failed", status))).toEqual([
    "delivered",
    "read",
  ]);
  expect(messageStatuses.filter((status) => supersedes("received", status))).toEqual([]);
  expect(messageStatuses.filter((status) => supersedes("sent", status))).toEqual([
    "failed",
    "delivered",
    "read",
  ]);
  expect(messageStatuses.filter((status) => reaches(status, "delivered"))).toEqual([
    "delivered",
    "read",
  ]);
  expect(messageStatuses.filter(isReported)).toEqual(["sent", "failed", "delivered", "read"]);
});
