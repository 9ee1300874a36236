import type { secretEncodings, signatureAlgorithms, signatureEncodings } from "./signature-settings.ts";

export type SignatureAlgorithm = (typeof signatureAlgorithms)[number];
export type SignatureEncoding = (typeof signatureEncodings)[number];
export type SecretEncoding = (typeof secretEncodings)[number];

/** Bytes in a digest. */
export const digestLengths: Readonly<Record<SignatureAlgorithm, number>> = { sha1: 20, sha256: 32, sha384: 48, sha512: 64 };

const hexDigits = /^[0-9a-fA-F]+$/;

/**
 * The bytes that `text` stands for; null when it is not exactly that encoding. Hex in either case;
 * base64 and base64url with or without padding. Strict because `Buffer.from` is not: it stops at or
 * skips what it does not know, so that several texts would stand for one signature.
 */
export function decodeStrictly(text: string, encoding: SignatureEncoding): Buffer | null {
  if (encoding === "hex") return text.length % 2 === 0 && hexDigits.test(text) ? Buffer.from(text, "hex") : null;
  const bytes = Buffer.from(text, encoding);
  if (bytes.length === 0) return null;
  const canonical = bytes.toString(encoding);
  if (text === canonical) return bytes;
  const [bare, padding] =
    encoding === "base64" ? [canonical.replace(/=+$/, ""), ""] : [canonical, "=".repeat((3 - (bytes.length % 3)) % 3)];
  return text === bare + padding ? bytes : null;
}

/**
 * The key that a secret stands for. `whsec` is the way of Standard Webhooks: base64, after `whsec_` or bare.
 * Throws a RangeError, which does not quote the secret, when the text is not in that encoding.
 */
export function decodeKey(secret: string, encoding: SecretEncoding): Buffer {
  const key = keyBytes(secret, encoding);
  if (key === null || key.length === 0) {
    throw new RangeError(encoding === "whsec" ? "the secret is not base64 (after whsec_)" : `the secret is not ${encoding}`);
  }
  return key;
}

function keyBytes(secret: string, encoding: SecretEncoding): Buffer | null {
  switch (encoding) {
    case "utf8":
      return Buffer.from(secret, "utf8");
    case "hex":
      return decodeStrictly(secret, "hex");
    case "base64":
      return decodeStrictly(secret, "base64") ?? decodeStrictly(secret, "base64url");
    case "whsec":
      return decodeStrictly(secret.startsWith("whsec_") ? secret.slice("whsec_".length) : secret, "base64");
  }
}
