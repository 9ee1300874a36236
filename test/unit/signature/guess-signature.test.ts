import { createHmac } from "node:crypto";
import { expect, test } from "vitest";
import {
  type SignatureSettings,
  secretEncodings,
  signatureAlgorithms,
  signatureEncodings,
  signaturePresets,
  signatureSettingsSchema,
} from "../../../src/event/signature-settings.ts";
import { guessSignature } from "../../../src/receive/guess-signature.ts";
import { publicUrl, receive, type Sent, secretFor, secretOf, sent, signedAtMs, verify } from "./schemes.ts";

const later: Sent = {
  ...sent,
  body: Buffer.from("another body"),
  id: "msg_2",
  timestampMs: signedAtMs + 86_400_000,
  url: "/webhooks/main?a=2",
};

/** Guesses from one captured request; the guess is right when it proves another request signed in the same way. */
function expectFound(settings: SignatureSettings): readonly SignatureSettings[] {
  const secret = secretOf(settings);
  const captured = receive(settings, secret);
  const { matches } = guessSignature({ ...captured, secret });
  const another = receive(settings, secret, later);
  const right = matches.filter((match) => verify(match, secret, another).ok);
  expect(right, `found for ${JSON.stringify(settings)}: ${JSON.stringify(matches)}`).not.toEqual([]);
  for (const match of matches) expect(verify(match, secret, captured).ok).toBe(true);
  return matches;
}

const presets = signaturePresets.map(
  (preset): SignatureSettings =>
    preset === "plain" ? { preset, service: "acme" } : preset === "hubspot" ? { preset, publicUrl } : { preset },
);

test.each(presets)("a preset is found by its name alone: %o", (settings) => {
  const [first] = expectFound(settings);
  const { tolerance: _, ...told } = first as SignatureSettings;
  expect(told).toEqual(settings.preset === "plain" ? { service: "acme" } : settings);
});

test.each(presets)("with every algorithm and encoding: %o", (settings) => {
  for (const algorithm of signatureAlgorithms) for (const encoding of signatureEncodings) expectFound({ ...settings, algorithm, encoding });
});

test.each(secretEncodings)("with every preset, and a secret in %s", (secretEncoding) => {
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
  { separator: " ", timestampField: "time", prefix: "s=", content: "{body}{timestamp}", timestampUnit: "ms" },
  { ...timed, content: "{timestamp}.{body}" },
  { ...timed, content: "{timestamp}\n{body}", timestampUnit: "ms" },
  { ...timed, content: "{method}\n{url}\n{timestamp}\n{body}" },
  { ...timed, content: "{timestamp}{method}{url}{body}", publicUrl },
  { ...timed, content: "{id}:{timestamp}:{body}", idHeader: "x-request-id" },
  { content: "{id}.{body}", idHeader: "x-acme-delivery" },
  { content: "{url}{body}", publicUrl },
];

test.each(axes)("without a preset: %o", (settings) => {
  for (const algorithm of signatureAlgorithms) {
    for (const encoding of signatureEncodings) {
      for (const secretEncoding of secretEncodings) {
        expectFound({ ...(settings.header === undefined ? { service: "acme" } : {}), algorithm, encoding, secretEncoding, ...settings });
      }
    }
  }
});

test("the default comes out as the service's name and nothing else", () => {
  expect(expectFound({ service: "acme" })).toEqual([{ service: "acme" }]);
  expect(expectFound({ service: "acme", prefix: "sha256=" })).toEqual([{ service: "acme" }]);
  expect(expectFound({ header: "x-sum", algorithm: "sha512", encoding: "base64" })[0]).toEqual({
    header: "x-sum",
    algorithm: "sha512",
    encoding: "base64",
  });
});

test("a signed time brings a tolerance with it", () => {
  const [found] = expectFound({ service: "acme", ...timed, content: "{timestamp}.{body}" });
  expect(found).toEqual({ service: "acme", content: "{timestamp}.{body}", timestampHeader: "x-acme-timestamp", tolerance: 300_000 });
  expect(signatureSettingsSchema.safeParse({ ...found, tolerance: "5m" }).success).toBe(true);
});

test("of two signatures in one header, either proves", () => {
  const at = { preset: "standard-webhooks" } as const;
  const request = receive(at, secretFor.whsec);
  const old = receive(at, "whsec_b2xkIG9sZCBvbGQ=").headers["webhook-signature"];
  const headers = { ...request.headers, "webhook-signature": `${old} ${request.headers["webhook-signature"]}` };
  expect(guessSignature({ ...request, headers, secret: secretFor.whsec }).matches[0]).toEqual(at);
});

test("a capture that is old proves, and is said to be refused when it is sent again", () => {
  const request = { ...receive({ preset: "stripe" }, "s"), secret: "s" };
  expect(guessSignature({ ...request, nowMs: signedAtMs }).hints).toEqual([]);
  const { matches, hints } = guessSignature({ ...request, nowMs: signedAtMs + 3_600_000 });
  expect(matches[0]).toEqual({ preset: "stripe" });
  expect(hints).toEqual([expect.stringContaining("outside the tolerance")]);
});

const json = Buffer.from('{"a": 1,\r\n "b": "x"}\r\n');
function guessAfter(change: (body: Buffer) => Buffer, body = json) {
  return guessSignature({ ...receive({ service: "acme" }, "s", { ...sent, body }), body: change(body), secret: "s" });
}
const edit = (change: (text: string) => string) => (body: Buffer) => Buffer.from(change(body.toString()));

test.each([
  ["lost its last line break", edit((text) => text.trimEnd()), Buffer.from("x\n"), /ends with a line break/],
  ["got a line break", edit((text) => `${text}\n`), json, /loses its last line break/],
  ["lost its CR", edit((text) => text.replaceAll("\r", "")), json, /LF turned into CRLF/],
  ["got CR", edit((text) => text.replaceAll("\n", "\r\n")), Buffer.from("a\nb\n"), /CRLF turned into LF/],
  [
    "was printed prettily",
    edit((text) => JSON.stringify(JSON.parse(text), null, 4)),
    Buffer.from('{"a":1,"b":[2]}'),
    /written again as JSON \(/,
  ],
] as const)("a body that %s on its way is named", (_what, change, body, expected) => {
  expect(guessAfter((same) => same, body).matches).toEqual([{ service: "acme" }]);
  const { matches, hints } = guessAfter(change, body);
  expect(matches).toEqual([]);
  expect(hints).toContainEqual(expect.stringMatching(expected));
});

test.each([
  [" s ", /loses the white space/],
  ["s\n", /loses the white space/],
  ['"s"', /loses the quotes/],
  ["whsec_s", /loses whsec_/],
])("a secret that is nearly right is named: %j", (secret, expected) => {
  const { matches, hints } = guessSignature({ ...receive({ service: "acme" }, "s"), secret });
  expect(matches).toEqual([]);
  expect(hints).toContainEqual(expect.stringMatching(expected));
});

test("without any match, the header that looks like a signature is told by its length", () => {
  const guess = (headers: Record<string, string>) => guessSignature({ ...sent, headers, secret: "s" }).hints.join("\n");
  const sum = (algorithm: string) => createHmac(algorithm, "other").update(sent.body).digest();
  expect(guess({ "x-signature": sum("sha256").toString("hex") })).toMatch(/x-signature holds 32 bytes in hex, as HMAC-SHA256/);
  expect(guess({ "x-signature": `v1=${sum("sha512").toString("base64")}` })).toMatch(/64 bytes in base64, as HMAC-SHA512/);
  expect(guess({ "x-signature": sum("md5").toString("hex") })).toMatch(/16 bytes in hex: MD5/);
  expect(guess({ "x-signature": "none" })).toMatch(/holds neither/);
  expect(guess({ host: "relay.example" })).toMatch(/no header looks like a signature/);
});

test("another secret finds nothing, whatever the scheme", () => {
  for (const settings of [...presets, { service: "acme" }]) {
    const captured = receive(settings, secretOf(settings));
    expect(guessSignature({ ...captured, secret: "another secret" }).matches).toEqual([]);
  }
});
