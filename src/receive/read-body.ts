import type { IncomingMessage } from "node:http";

export type BodyResult = { readonly kind: "body"; readonly body: Buffer } | { readonly kind: "too-large" } | { readonly kind: "gone" };

/**
 * Reads a request's body as raw bytes, at most `limit` of them; `done` is called once. A plain
 * callback, because this is on the path of every request.
 */
export function readBody(request: IncomingMessage, limit: number, done: (result: BodyResult) => void): void {
  const declared = request.headers["content-length"];
  if (declared !== undefined && Number(declared) > limit) {
    done({ kind: "too-large" });
    return;
  }
  let first: Buffer | null = null;
  let chunks: Buffer[] | null = null;
  let size = 0;
  let over = false;
  const finish = (result: BodyResult): void => {
    if (over) return;
    over = true;
    done(result);
  };
  request.on("data", (chunk: Buffer) => {
    if (over) return;
    size += chunk.length;
    if (size > limit) {
      finish({ kind: "too-large" });
      return;
    }
    if (first === null) first = chunk;
    else if (chunks === null) chunks = [first, chunk];
    else chunks.push(chunk);
  });
  request.on("end", () => finish({ kind: "body", body: chunks === null ? (first ?? empty) : Buffer.concat(chunks, size) }));
  request.on("error", () => finish({ kind: "gone" }));
  request.on("close", () => finish({ kind: "gone" }));
}

const empty = Buffer.alloc(0);
