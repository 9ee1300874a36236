import { expect, test } from "vitest";
import { createSigner as createRelaySigner, type SignatureSettings, signatureSettingsSchema } from "../../../src/model/signature.ts";
import { createSigner, signingSchema } from "../../../src/sandbox/signing.ts";
import { isReported, messageStatuses, reaches, supersedes } from "../../../src/sandbox/statuses.ts";

const request = {
  method: "POST",
  url: "http://127.0.0.1:4000/webhooks/main?a=1",
  body: Buffer.from('{"id":"á"}'),
  id: "event-1",
  timestampMs: 1_795_262_400_123,
};

const all: readonly (SignatureSettings & { secret?: string })[] = [
  { service: "Acme" },
  { preset: "plain", service: "acme", algorithm: "sha512" },
  { preset: "meta" },
  { preset: "shopify" },
  { preset: "stripe" },
  { preset: "stripe", timestampHeader: "X-Time", tolerance: "1m" as unknown as number },
  { preset: "slack" },
  { preset: "slack", timestampField: "t", separator: ";" },
  { preset: "standard-webhooks", secret: "whsec_c2VjcmV0LXNlY3JldA==" },
  { preset: "hubspot", publicUrl: "https://relay.example/" },
  { header: "X-Own", encoding: "base64url", content: "{timestamp}.{body}", timestampHeader: "X-Time", timestampUnit: "iso" },
  { header: "x-own", secretEncoding: "hex", secret: "00ff" },
  { header: "x-own", secretEncoding: "base64", secret: "_w-_" },
];

test.each(all)("the sandbox's own signer agrees with the relay's on %j", ({ secret = "secret", ...settings }) => {
  const relay = createRelaySigner(signatureSettingsSchema.parse(settings), secret)(request);
  const own = createSigner(signingSchema.parse(settings), secret)(request);
  expect(own).toEqual(relay);
});

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
  expect(() => createSigner({ header: "x", secretEncoding }, secret)).toThrow(/^the secret is not (hex|base64)/);
});

test("a status takes the place of an earlier one only", () => {
  expect(messageStatuses.filter((status) => supersedes("failed", status))).toEqual(["delivered", "read"]);
  expect(messageStatuses.filter((status) => supersedes("received", status))).toEqual([]);
  expect(messageStatuses.filter((status) => supersedes("sent", status))).toEqual(["failed", "delivered", "read"]);
  expect(messageStatuses.filter((status) => reaches(status, "delivered"))).toEqual(["delivered", "read"]);
  expect(messageStatuses.filter(isReported)).toEqual(["sent", "failed", "delivered", "read"]);
});
