import { createHmac, createSecretKey, hash } from "node:crypto";
import type { SignatureAlgorithm } from "./signature-bytes.ts";

/** A secret ready to sign with. */
export interface HmacKey {
  /** The HMAC over the parts as if they were one. Texts: one character a byte. */
  digest(parts: readonly (Buffer | string)[]): Buffer;
}

/** Bytes that the hash takes at a time. */
const blockLengths: Readonly<Record<SignatureAlgorithm, number>> = { sha1: 64, sha256: 64, sha384: 128, sha512: 128 };
const innerPad = 0x36;
const outerPad = 0x5c;

/** Bytes, the key's block among them, that are copied together to be hashed; what is longer is hashed part by part. */
const mostAtOnce = 16 * 1024;
const content = Buffer.allocUnsafeSlow(mostAtOnce);

/**
 * HMAC by its definition (RFC 2104): `H(key ^ opad, H(key ^ ipad, content))`. Node's own makes an object for each digest,
 * which its collector has to come back for: over an event of the usual size that takes more than twice as long.
 */
export function createHmacKey(algorithm: SignatureAlgorithm, secret: Buffer): HmacKey {
  const blockLength = blockLengths[algorithm];
  const key = Buffer.alloc(blockLength);
  if (secret.length > blockLength) key.write(hash(algorithm, secret, "hex"), "hex");
  else secret.copy(key);
  const inner = key.map((byte) => byte ^ innerPad);
  const outer = Buffer.concat([key.map((byte) => byte ^ outerPad), Buffer.from(hash(algorithm, "", "hex"), "hex")]);
  const long = createSecretKey(secret);

  return {
    digest(parts) {
      let length = blockLength;
      for (const part of parts) length += part.length;
      if (length > mostAtOnce) {
        const hmac = createHmac(algorithm, long);
        for (const part of parts) hmac.update(typeof part === "string" ? Buffer.from(part, "latin1") : part);
        return hmac.digest();
      }
      content.set(inner);
      let end = blockLength;
      for (const part of parts) {
        if (typeof part === "string") content.write(part, end, "latin1");
        else content.set(part, end);
        end += part.length;
      }
      // Hex: what else the hash can be given as makes a buffer on the way.
      outer.write(hash(algorithm, content.subarray(0, end), "hex"), blockLength, "hex");
      return Buffer.from(hash(algorithm, outer, "hex"), "hex");
    },
  };
}
