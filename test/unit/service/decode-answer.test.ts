import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import fc from "fast-check";
import { expect, test } from "vitest";
import { decodeAnswer } from "../../../src/service/answers.ts";

const encoders = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
};
const names = Object.keys(encoders) as (keyof typeof encoders)[];

test("decodes one compression, and never beyond the allowed length", () => {
  const encoding = fc.constantFrom("identity", ...names);
  fc.assert(
    fc.property(
      fc.uint8Array({ minLength: 1, maxLength: 2_000 }),
      encoding,
      fc.integer({ min: 1, max: 3_000 }),
      (bytes, name, most) => {
        const sent = name === "identity" ? bytes : encoders[name as keyof typeof encoders](bytes);
        const { answer, problem } = decodeAnswer(
          { status: 200, headers: { "content-encoding": name }, bytes: sent },
          most,
        );
        if (name === "identity" || bytes.length <= most) expect(problem).toBeNull();
        if (problem === null) expect(Buffer.from(answer.bytes)).toEqual(Buffer.from(bytes));
        else expect(problem).toBe(`the decompressed body is longer than ${most} bytes`);
      },
    ),
  );
});

test("any header and bytes give a body or a problem that quotes neither", () => {
  const header = fc.oneof(
    fc.string(),
    fc.constantFrom(...names),
    fc.array(fc.constantFrom(...names, "toString", "x"), { maxLength: 5 }),
  );
  fc.assert(
    fc.property(header, fc.uint8Array({ maxLength: 200 }), (encoding, bytes) => {
      const { answer, problem } = decodeAnswer(
        { status: 200, headers: { "content-encoding": encoding }, bytes },
        1_000,
      );
      expect(problem ?? "the").toMatch(
        /^the( (decompressed )?body (is not valid [a-z-]+|has a content encoding .*|is longer than 1000 bytes))?$/,
      );
      if (problem !== null) expect(answer.bytes).toBe(bytes);
    }),
  );
});
