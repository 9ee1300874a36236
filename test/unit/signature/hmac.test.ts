import { createHmac } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { createHmacKey, signatureAlgorithms } from "../../../src/model/signature.ts";

/** RFC 4231, section 4: key, data and HMAC-SHA-256. The sixth key is longer than a block. */
const vectors: [string, string, string][] = [
  ["0b".repeat(20), Buffer.from("Hi There").toString("hex"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"],
  [
    Buffer.from("Jefe").toString("hex"),
    Buffer.from("what do ya want for nothing?").toString("hex"),
    "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
  ],
  ["aa".repeat(20), "dd".repeat(50), "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"],
  [
    "aa".repeat(131),
    Buffer.from("Test Using Larger Than Block-Size Key - Hash Key First").toString("hex"),
    "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
  ],
];

test.each(vectors)("RFC 4231, key %s", (key, data, expected) => {
  const digest = createHmacKey("sha256", Buffer.from(key, "hex")).digest([Buffer.from(data, "hex")]);
  expect(digest.toString("hex")).toBe(expected);
});

const part = fc.oneof(
  fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes).toString("latin1")),
  // About as much as is hashed at once, and more.
  fc.tuple(fc.integer({ min: 15 * 1024, max: 40 * 1024 }), fc.nat(255)).map(([length, byte]) => Buffer.alloc(length, byte)),
);

test("as Node's own, whatever the key, the algorithm and the parts; one key is used for many", () => {
  const keys = fc.record({
    algorithm: fc.constantFrom(...signatureAlgorithms),
    secret: fc.uint8Array({ minLength: 1, maxLength: 300 }).map((bytes) => Buffer.from(bytes)),
  });
  const contents = fc.array(fc.array(part, { maxLength: 5 }), { minLength: 1, maxLength: 4 });
  fc.assert(
    fc.property(fc.array(keys, { minLength: 1, maxLength: 3 }), contents, (several, lists) => {
      const ours = several.map(({ algorithm, secret }) => createHmacKey(algorithm, secret));
      for (const parts of lists) {
        const whole = Buffer.concat(parts.map((one) => (typeof one === "string" ? Buffer.from(one, "latin1") : one)));
        const digests = ours.map((key) => key.digest(parts));
        for (const [n, { algorithm, secret }] of several.entries()) {
          expect(digests[n]).toEqual(createHmac(algorithm, secret).update(whole).digest());
        }
      }
    }),
  );
});

test.each([-1, 0, 1])("at the edge of what is hashed at once: %i bytes from it", (more) => {
  const content = Buffer.alloc(16 * 1024 - 64 + more, "x");
  const secret = Buffer.from("edge");
  const expected = createHmac("sha256", secret).update(content).digest();
  expect(createHmacKey("sha256", secret).digest([content.subarray(0, 100), content.subarray(100)])).toEqual(expected);
});
