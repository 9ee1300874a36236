import { expect, test } from "vitest";
import { Secret } from "../../../src/model/secret.ts";
import type { SignatureSettings } from "../../../src/model/signature.ts";
import { createVerifier, type VerifiableRequest } from "../../../src/receive/verify-request.ts";
import { publicUrl, receive, sent, signatureHeaders, signedAtMs, verify } from "./schemes.ts";

const plain: SignatureSettings = { service: "acme" };
const hexOf = (secret: string) =>
  signatureHeaders(plain, secret, sent)["x-acme-signature"] as string;

function withHeader(value: string | undefined, settings: SignatureSettings = plain) {
  const headers = value === undefined ? {} : { "x-acme-signature": value };
  return verify(settings, "right", { ...sent, headers, nowMs: signedAtMs });
}

test("verifies with each of several secrets, and returns its fingerprint", () => {
  const secrets = ["new", "old", "older"].map((text) => new Secret(text));
  const verifier = createVerifier({ ...plain, secrets });
  for (const secret of secrets) {
    expect(verifier(receive(plain, secret.reveal()))).toMatchObject({
      ok: true,
      secret: secret.fingerprint(),
    });
  }
  expect(verifier(receive(plain, "other"))).toEqual({ ok: false, reason: "no-match" });
});

test("verifies any of up to sixteen signatures in one header", () => {
  const settings = { ...plain, separator: "," };
  const wrong = hexOf("wrong");
  // As the HTTP server joins repeated headers, and as senders do.
  for (const joint of [", ", ","]) {
    expect(
      withHeader([...Array(15).fill(wrong), hexOf("right")].join(joint), settings),
    ).toMatchObject({ ok: true });
  }
  expect(withHeader([...Array(16).fill(wrong), hexOf("right")].join(","), settings)).toEqual({
    ok: false,
    reason: "malformed-signature",
  });
  expect(withHeader(Array(16).fill(wrong).join(","), settings)).toEqual({
    ok: false,
    reason: "no-match",
  });
});

test.each([
  ["absent", undefined, "missing-signature"],
  ["empty", "", "missing-signature"],
  ["of another length", hexOf("right").slice(2), "malformed-signature"],
  ["of odd length", hexOf("right").slice(1), "malformed-signature"],
  ["with more text after it", `${hexOf("right")}zz`, "malformed-signature"],
  [
    "with a space inside",
    `${hexOf("right").slice(0, 32)} ${hexOf("right").slice(32)}`,
    "malformed-signature",
  ],
  [
    "with a letter that only looks like hex",
    hexOf("right").replace(/^./, "\u0130"),
    "malformed-signature",
  ],
  ["after another algorithm's name", `sha512=${hexOf("right")}`, "malformed-signature"],
  ["twice", `${hexOf("right")}, ${hexOf("right")}`, "malformed-signature"],
] as const)("refuses a signature %s", (_what, value, reason) => {
  expect(withHeader(value)).toEqual({ ok: false, reason });
  expect(withHeader(hexOf("right"))).toMatchObject({ ok: true });
});

test("accepts hex in either case, and canonical base64 with or without padding", () => {
  expect(withHeader(hexOf("right").toUpperCase())).toMatchObject({ ok: true });
  const settings = { ...plain, encoding: "base64" } as const;
  const padded = signatureHeaders(settings, "right", sent)["x-acme-signature"] as string;
  expect(padded).toMatch(/=$/);
  const bare = padded.slice(0, -1);
  expect(withHeader(padded, settings)).toMatchObject({ ok: true });
  expect(withHeader(bare, settings)).toMatchObject({ ok: true });
  // The last of 43 characters holds four bits of the signature and two that must be zero.
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const nonCanonical = bare.slice(0, -1) + alphabet[alphabet.indexOf(bare.slice(-1)) + 1];
  expect(Buffer.from(nonCanonical, "base64")).toEqual(Buffer.from(bare, "base64"));
  for (const value of [
    nonCanonical,
    `${padded}=`,
    `${bare}\n`,
    `${bare.slice(0, 8)} ${bare.slice(8)}`,
  ]) {
    expect(withHeader(value, settings)).toEqual({ ok: false, reason: "malformed-signature" });
  }
});

test("distinguishes base64 from base64url", () => {
  const url = { ...plain, encoding: "base64url" } as const;
  const standard = { ...plain, encoding: "base64" } as const;
  // A body whose signature has a character that only one of the two alphabets has.
  const body = Array.from({ length: 64 }, (_, n) => Buffer.from(String(n))).find((tried) =>
    /[-_]/.test(
      signatureHeaders(url, "right", { ...sent, body: tried })["x-acme-signature"] as string,
    ),
  ) as Buffer;
  const request = receive(url, "right", { ...sent, body });
  expect(verify(url, "right", request)).toMatchObject({ ok: true });
  expect(verify(standard, "right", request)).toEqual({ ok: false, reason: "malformed-signature" });
});

test.each([
  ["stripe", { preset: "stripe" }],
  ["slack", { preset: "slack" }],
  ["hubspot", { preset: "hubspot", publicUrl }],
  [
    "milliseconds",
    {
      ...plain,
      content: "{body}{timestamp}",
      timestampHeader: "x-time",
      timestampUnit: "ms",
      tolerance: 300_000,
    },
  ],
] as [string, SignatureSettings][])(
  "applies the tolerance of %s to the millisecond, in both directions",
  (_name, settings) => {
    const request = receive(settings, "right");
    const at = (nowMs: number) => verify(settings, "right", { ...request, nowMs });
    expect(at(signedAtMs)).toMatchObject({ ok: true });
    for (const sign of [1, -1]) {
      expect(at(signedAtMs + sign * 300_000)).toMatchObject({ ok: true });
      expect(at(signedAtMs + sign * 300_001)).toEqual({ ok: false, reason: "stale-timestamp" });
    }
    // A wrong secret does not match, however old the request is.
    expect(verify(settings, "wrong", { ...request, nowMs: signedAtMs + 300_001 })).toEqual({
      ok: false,
      reason: "no-match",
    });
  },
);

test("refuses a missing timestamp or id", () => {
  const slack = receive({ preset: "slack" }, "right");
  const { "x-slack-request-timestamp": _, ...without } = slack.headers;
  expect(verify({ preset: "slack" }, "right", { ...slack, headers: without })).toEqual({
    ok: false,
    reason: "missing-timestamp",
  });
  const stripe = receive({ preset: "stripe" }, "right");
  const signature = String(stripe.headers["stripe-signature"]);
  const stripeWith = (value: string) =>
    verify({ preset: "stripe" }, "right", { ...stripe, headers: { "stripe-signature": value } });
  expect(stripeWith(signature.replace(/^t=\d+,/, ""))).toEqual({
    ok: false,
    reason: "missing-timestamp",
  });
  expect(stripeWith(signature.replace(/^t=\d+/, "t=now"))).toEqual({
    ok: false,
    reason: "malformed-signature",
  });
  expect(stripeWith(`${signature},t=1`)).toEqual({ ok: false, reason: "malformed-signature" });
  expect(stripeWith(`${signature}, ${signature}`)).toMatchObject({ ok: true });
  const settings = { preset: "standard-webhooks", secretEncoding: "utf8" } as const;
  const standard = receive(settings, "right");
  const { "webhook-id": __, ...noId } = standard.headers;
  expect(verify(settings, "right", { ...standard, headers: noId })).toEqual({
    ok: false,
    reason: "missing-signature",
  });
});

test("ignores headers from the prototype", () => {
  const request = { ...sent, headers: {}, nowMs: 0 } as VerifiableRequest;
  expect(verify({ header: "constructor" }, "right", request)).toEqual({
    ok: false,
    reason: "missing-signature",
  });
});
