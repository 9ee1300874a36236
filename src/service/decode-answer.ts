import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from "node:zlib";
import type { Answer } from "./read-answer.ts";

const decoders: Readonly<Record<string, (bytes: Uint8Array, limits: { readonly maxOutputLength: number }) => Buffer>> = {
  gzip: gunzipSync,
  "x-gzip": gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
  zstd: zstdDecompressSync,
};
/** A chain of encodings multiplies the work of one answer; proxies add one. */
const mostEncodings = 2;

/**
 * The answer with its body decompressed, for proxies that compress what nobody asked them to. `problem`: why that could
 * not be done. The body never becomes longer than `maxBytes`.
 */
export function decodeAnswer(answer: Answer, maxBytes: number): { readonly answer: Answer; readonly problem: string | null } {
  const encodings = encodingsOf(answer.headers["content-encoding"]);
  if (encodings.length === 0 || answer.bytes.length === 0) return { answer, problem: null };
  if (encodings.length > mostEncodings || encodings.some((name) => !Object.hasOwn(decoders, name)))
    return { answer, problem: "the body has a content encoding that the relay cannot read" };
  let { bytes } = answer;
  for (const name of encodings.toReversed()) {
    try {
      bytes = decoders[name]?.(bytes, { maxOutputLength: maxBytes }) ?? bytes;
    } catch (error) {
      const isTooLong = (error as { readonly code?: unknown }).code === "ERR_BUFFER_TOO_LARGE";
      return { answer, problem: isTooLong ? `the decompressed body is longer than ${maxBytes} bytes` : `the body is not valid ${name}` };
    }
  }
  return { answer: { ...answer, bytes }, problem: null };
}

/** Lower-case names in the order they were applied, without those that change nothing. */
function encodingsOf(header: string | string[] | undefined): string[] {
  return [header ?? []]
    .flat()
    .join(",")
    .split(",")
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "" && name !== "identity");
}
