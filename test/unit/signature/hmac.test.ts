import { expect, test } from "vitest";
import { createHmacKey } from "../../../src/model/signature.ts";

/** RFC 4231, section 4: key, data and HMAC-SHA-256. The last key is longer than a block. */
const vectors: [string, string, string][] = [
  [
    "0b".repeat(20),
    Buffer.from("Hi There").toString("hex"),
    "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
  ],
  [
    Buffer.from("Jefe").toString("hex"),
    Buffer.from("what do ya want for nothing?").toString("hex"),
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
  ],
  [
    "aa".repeat(20),
    "dd".repeat(50),
    "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
  ],
  [
    "aa".repeat(131),
    Buffer.from("Test Using Larger Than Block-Size Key - Hash Key First").toString("hex"),
    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
  ],
];

test.each(vectors)(
  "RFC 4231, key %s: bytes and text parts, with one key for several digests",
  (key, data, expected) => {
    const hmac = createHmacKey("sha256", Buffer.from(key, "hex"));
    const content = Buffer.from(data, "hex");
    expect(hmac.digest([content]).toString("hex")).toBe(expected);
    // 0xdd is two bytes in UTF-8, and one in the text of a header.
    expect(
      hmac.digest([content.subarray(0, 3), content.subarray(3).toString("latin1")]).toString("hex"),
    ).toBe(expected);
  },
);
