import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import {
  type SignatureSettings,
  secretEncodings,
  signatureAlgorithms,
  signatureEncodings,
  signaturePresets,
  signatureSettingsSchema,
} from "../../../src/model/signature.ts";
import { guessSignature } from "../../../src/receive/signature/guess.ts";
import {
  publicUrl,
  receive,
  type Sent,
  secretFor,
  secretOf,
  sent,
  signedAtMs,
  verify,
} from "./schemes.ts";

const later: Sent = {
  ...sent,
  body: Buffer.from("another body"),
  id: "msg_2",
  timestampMs: signedAtMs + 86_400_000,
  url: "/webhooks/main?a=2",
};

/**
 * Guesses from one captured request; the guess is right when it verifies another request signed in
 * the same way.
 */
function expectFound(settings: SignatureSettings): readonly SignatureSettings[] {
  const secret = secretOf(settings);
  const captured = receive(settings, secret);
  const { matches } = guessSignature({ ...captured, secret });
  const another = receive(settings, secret, later);
  const right = matches.filter((match) => verify(match, secret, another).ok);
  expect(right, `found for ${JSON.stringify(settings)}: ${JSON.stringify(matches)}`).not.toEqual(
    [],
  );
  for (const match of matches) expect(verify(match, secret, captured).ok).toBe(true);
  return matches;
}

const presets = signaturePresets.map(
  (preset): SignatureSettings =>
    preset === "plain"
      ? { preset, service: "acme" }
      : preset === "hubspot"
        ? { preset, publicUrl }
        : { preset },
);

test.each(presets)("finds a preset by its name alone: %o", (settings) => {
  const [first] = expectFound(settings);
  const { tolerance: _, ...told } = first as SignatureSettings;
  expect(told).toEqual(settings.preset === "plain" ? { service: "acme" } : settings);
});

test.each(presets)("finds every algorithm and encoding: %o", (settings) => {
  for (const algorithm of signatureAlgorithms)
    for (const encoding of signatureEncodings) expectFound({ ...settings, algorithm, encoding });
});

test.each(secretEncodings)("finds every preset with a secret in %s", (secretEncoding) => {
  for (const settings of presets) expectFound({ ...settings, secretEncoding });
});

const timed = { timestampHeader: "x-acme-timestamp" };
const axes: SignatureSettings[] = [
  {},
  { prefix: "hmac-sha256=" },
  { prefix: "v2:" },
  { prefix: "HMAC " },
  { header: "authorization", prefix: "HMAC " },
  { separator: ";", timestampField: "ts", prefix: "sig=", content: "{timestamp}.{body}" },
  {
    separator: " ",
    timestampField: "time",
    prefix: "s=",
    content: "{body}{timestamp}",
    timestampUnit: "ms",
  },
  { ...timed, content: "{timestamp}.{body}" },
  { ...timed, content: "{timestamp}\n{body}", timestampUnit: "ms" },
  { ...timed, content: "{method}\n{url}\n{timestamp}\n{body}" },
  { ...timed, content: "{timestamp}{method}{url}{body}", publicUrl },
  { ...timed, content: "{id}:{timestamp}:{body}", idHeader: "x-request-id" },
  { content: "{id}.{body}", idHeader: "x-acme-delivery" },
  { content: "{url}{body}", publicUrl },
  // Trello
  { content: "{body}{url}", publicUrl },
  // Sinch
  { ...timed, content: "{body}.{id}.{timestamp}", idHeader: "x-sinch-webhook-signature-nonce" },
  { ...timed, content: "{timestamp}.{body}", timestampUnit: "iso" },
];

test.each(axes)("finds settings without a preset: %o", (settings) => {
  // Each value once: that all go together is tried with the presets.
  for (const [n, algorithm] of signatureAlgorithms.entries()) {
    const [encoding, secretEncoding] = [signatureEncodings, secretEncodings].map(
      (list) => list[n % list.length],
    );
    const service = settings.header === undefined ? { service: "acme" } : {};
    expectFound({
      ...service,
      algorithm,
      encoding,
      secretEncoding,
      ...settings,
    } as SignatureSettings);
  }
});

test("describes the default with the service's name alone", () => {
  expect(expectFound({ service: "acme" })).toEqual([{ service: "acme" }]);
  expect(expectFound({ service: "acme", prefix: "sha256=" })).toEqual([{ service: "acme" }]);
  expect(expectFound({ header: "x-sum", algorithm: "sha512", encoding: "base64" })[0]).toEqual({
    header: "x-sum",
    algorithm: "sha512",
    encoding: "base64",
  });
});

test("proposes a tolerance for a signed timestamp", () => {
  const [found] = expectFound({ service: "acme", ...timed, content: "{timestamp}.{body}" });
  expect(found).toEqual({
    service: "acme",
    content: "{timestamp}.{body}",
    timestampHeader: "x-acme-timestamp",
    tolerance: 300_000,
  });
  expect(signatureSettingsSchema.safeParse({ ...found, tolerance: "5m" }).success).toBe(true);
});

test("proposes a tolerance for a signed ISO time, which the relay then enforces", () => {
  const settings = {
    service: "acme",
    ...timed,
    content: "{timestamp}.{body}",
    timestampUnit: "iso",
  } as const;
  const [found] = expectFound(settings);
  expect(found).toEqual({ ...settings, tolerance: 300_000 });
  const captured = receive(settings, secretOf(settings));
  const at = (ms: number) =>
    verify(found as SignatureSettings, secretOf(settings), { ...captured, nowMs: signedAtMs + ms });
  expect([at(299_000).ok, at(301_000), at(-301_000).ok]).toEqual([
    true,
    { ok: false, reason: "stale-timestamp" },
    false,
  ]);
  const unix = {
    ...captured,
    headers: { ...captured.headers, "x-acme-timestamp": String(signedAtMs) },
  };
  expect(verify(found as SignatureSettings, secretOf(settings), unix)).toEqual({
    ok: false,
    reason: "malformed-signature",
  });
});

test("verifies either of two signatures in one header", () => {
  const at = { preset: "standard-webhooks" } as const;
  const request = receive(at, secretFor.whsec);
  const old = receive(at, "whsec_b2xkIG9sZCBvbGQ=").headers["webhook-signature"];
  const headers = {
    ...request.headers,
    "webhook-signature": `${old} ${request.headers["webhook-signature"]}`,
  };
  expect(guessSignature({ ...request, headers, secret: secretFor.whsec }).matches[0]).toEqual(at);
});

test("verifies an old capture, with a hint that the relay would refuse it now", () => {
  const request = { ...receive({ preset: "stripe" }, "s"), secret: "s" };
  expect(guessSignature({ ...request, nowMs: signedAtMs }).hints).toEqual([]);
  const { matches, hints } = guessSignature({ ...request, nowMs: signedAtMs + 3_600_000 });
  expect(matches[0]).toEqual({ preset: "stripe" });
  expect(hints).toEqual([expect.stringContaining("outside the tolerance")]);
});

test.each([
  [" s ", /loses the white space/],
  ["s\n", /loses the white space/],
  ['"s"', /loses the quotes/],
  ["whsec_s", /loses whsec_/],
])("suggests the change of a nearly right secret: %j", (secret, expected) => {
  const { matches, hints } = guessSignature({ ...receive({ service: "acme" }, "s"), secret });
  expect(matches).toEqual([]);
  expect(hints).toContainEqual(expect.stringMatching(expected));
});

test("describes a header that looks like a signature by its length", () => {
  const guess = (headers: Record<string, string>) =>
    guessSignature({ ...sent, headers, secret: "s" }).hints.join("\n");
  const sum = (algorithm: string) => createHmac(algorithm, "other").update(sent.body).digest();
  expect(guess({ "x-signature": sum("sha256").toString("hex") })).toMatch(
    /x-signature holds 32 bytes in hex, as HMAC-SHA256/,
  );
  expect(guess({ "x-signature": `v1=${sum("sha512").toString("base64")}` })).toMatch(
    /64 bytes in base64, as HMAC-SHA512/,
  );
  expect(guess({ "x-signature": sum("md5").toString("hex") })).toMatch(
    /16 bytes in hex: no HMAC .* and MD5 and truncated digests are not supported/,
  );
  expect(guess({ "x-signature": "none" })).toMatch(/holds neither/);
  expect(guess({ host: "relay.example" })).toMatch(/no header looks like a signature/);
});

test("finds nothing with another secret, whatever the scheme", () => {
  for (const settings of [...presets, { service: "acme" }]) {
    const captured = receive(settings, secretOf(settings));
    expect(guessSignature({ ...captured, secret: "another secret" }).matches).toEqual([]);
  }
});

const guessOf = (
  headers: Record<string, string>,
  more: Partial<Parameters<typeof guessSignature>[0]> = {},
) =>
  guessSignature({
    method: "POST",
    url: "/webhooks/main",
    body: sent.body,
    secret: "the-right-secret",
    headers,
    ...more,
  });
const hmac = (
  algorithm: string,
  content: string | Buffer = sent.body,
  secret = "the-right-secret",
) => createHmac(algorithm, secret).update(content).digest();
const bytes = (length: number) => Buffer.from(Array.from({ length }, (_, n) => (n * 89 + 7) % 256));

test.each<[name: string, headers: Record<string, string>, expected: RegExp]>([
  [
    "GitLab's token",
    { "x-gitlab-token": "the-right-secret" },
    /^x-gitlab-token holds the secret itself: a static token/,
  ],
  [
    "another GitLab token",
    { "x-gitlab-token": "another" },
    /^x-gitlab-token is a static token of GitLab.*not this secret/,
  ],
  [
    "Telegram's token",
    { "x-telegram-bot-api-secret-token": "another" },
    /a static token of Telegram/,
  ],
  [
    "Twilio",
    { "x-twilio-signature": bytes(20).toString("base64") },
    /^x-twilio-signature is Twilio's/,
  ],
  [
    "a token in any header",
    { "x-api-key": "the-right-secret" },
    /^x-api-key holds the secret itself/,
  ],
  [
    "a bearer token",
    { authorization: "Bearer the-right-secret" },
    /^authorization holds the secret itself/,
  ],
  [
    "basic credentials",
    { authorization: `Basic ${btoa("me:the-right-secret")}` },
    /^authorization holds the secret itself/,
  ],
  [
    "Discord",
    { "x-signature-ed25519": bytes(64).toString("hex"), "x-signature-timestamp": "1800000000" },
    /Ed25519 signature/,
  ],
  [
    "v1a",
    {
      "webhook-signature": `v1a,${bytes(64).toString("base64")}`,
      "webhook-id": "m",
      "webhook-timestamp": "1800000000",
    },
    /Ed25519.*v1a/,
  ],
  ["a JSON Web Token", { authorization: "Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc" }, /JSON Web Token/],
])("names an unsupported scheme and does not blame the secret: %s", (_name, headers, expected) => {
  const { matches, hints, isSupported } = guessOf({
    host: "relay.example",
    "content-length": "1234",
    ...headers,
  });
  expect({ matches, isSupported }).toEqual({ matches: [], isSupported: false });
  expect(hints).toEqual([expect.stringMatching(expected)]);
  expect(hints[0]).not.toContain("the-right-secret");
});

test.each([
  ["PayPal", { "paypal-transmission-sig": Buffer.alloc(256).toString("base64") }, "{}"],
  [
    "AWS SNS",
    { "x-amz-sns-message-type": "Notification" },
    '{"Type":"Notification","MessageId":"1","TopicArn":"arn","Signature":"AA=="}',
  ],
  ["Mailgun", {}, '{"signature":{"timestamp":"1","token":"t","signature":"00"},"event-data":{}}'],
  ["Adyen", {}, '{"live":"false","notificationItems":[]}'],
])("names %s, whose signature no secret verifies", (sender, headers, body) => {
  const { matches, hints, isSupported } = guessOf(headers, { body: Buffer.from(body) });
  expect({ matches, isSupported }).toEqual({ matches: [], isSupported: false });
  expect(hints).toEqual([expect.stringContaining(sender)]);
});

test("reports a wrong secret although a proxy added a token", () => {
  const headers = {
    authorization: "Bearer eyJhbGciOiJIUzI1NiJ9.e30.abc",
    "x-acme-signature": hmac("sha256", sent.body, "other").toString("hex"),
  };
  const { hints, isSupported } = guessOf(headers);
  expect(isSupported).toBe(true);
  expect(hints[0]).toMatch(/x-acme-signature holds 32 bytes in hex, as HMAC-SHA256/);
  expect(hints[1]).toMatch(/JSON Web Token/);
});

test.each<[prefix: string, encoding: "hex" | "base64" | "base64url" | "utf8", label: RegExp]>([
  ["ats_", "utf8", /once the secret loses ats_ \(/],
  ["ats_", "hex", /once the secret loses ats_ .*secretEncoding hex/],
  ["whsec_", "utf8", /once the secret loses whsec_ \(/],
  ["whsec_", "hex", /once the secret loses whsec_ .*secretEncoding hex/],
  ["whsec_", "base64url", /once the secret loses whsec_ .*secretEncoding base64/],
])("finds a secret without its prefix %s, taken as %s", (prefix, encoding, label) => {
  const text = encoding === "utf8" ? "Zk9vQmFy" : Buffer.alloc(25, 0xfb).toString(encoding);
  const key = encoding === "utf8" ? Buffer.from(text) : Buffer.from(text, encoding);
  const signature = createHmac("sha256", key).update(sent.body).digest("hex");
  const { matches, hints } = guessOf({ "x-acme-signature": signature }, { secret: prefix + text });
  expect(matches).toEqual([]);
  expect(hints).toContainEqual(expect.stringMatching(label));
  expect(hints.join("\n")).not.toContain(text);
});

test("finds a secret without its prefix", () => {
  const signature = hmac("sha256", sent.body, "ats_abcdef").toString("hex");
  expect(guessOf({ "x-acme-signature": signature }, { secret: "abcdef" }).hints).toContainEqual(
    expect.stringMatching(/once the secret begins with ats_/),
  );
});
