import type { TakenRequest } from "./webhook-request.ts";

export type BodyResult =
  | { readonly kind: "body"; readonly body: Buffer }
  | { readonly kind: "too-large" }
  /** Too much is held in memory for bodies that are not complete yet. */
  | { readonly kind: "overloaded" }
  /** The sender went away. */
  | { readonly kind: "gone" };

export interface BodyLimits {
  /** Largest body, in bytes. */
  readonly bodyLimit: number;
  /** Bytes held for all incomplete bodies together. */
  readonly mostHeld: number;
}

/** Reads a request's body as raw bytes. `done` is called once; a plain callback, because this is on the path of every request. */
export type ReadBody = (request: TakenRequest, done: (result: BodyResult) => void) => void;

/** What one piece of a body costs beside its bytes: without it, a megabyte sent in chunks of one byte would count as one megabyte. */
const pieceBytes = 128;
/** A body below this is read on however much others hold, so that a few who send large ones slowly cannot shut out events. */
const alwaysHeld = 64 * 1024;

/**
 * Nobody has proved anything while a body comes in, so what all of them hold together is bounded: thousands
 * of connections that each send a megabyte and stop would otherwise fill the memory.
 */
export function createBodyReader({ bodyLimit, mostHeld }: BodyLimits): ReadBody {
  let heldByAll = 0;

  return (request, done) => {
    const declared = request.headers["content-length"];
    if (declared !== undefined && Number(declared) > bodyLimit) {
      done({ kind: "too-large" });
      return;
    }
    let first: Buffer | null = null;
    let pieces: Buffer[] | null = null;
    let size = 0;
    let held = 0;
    const finish = (result: BodyResult): void => {
      heldByAll -= held;
      done(result);
    };
    const refuse = (kind: "too-large" | "overloaded"): void => {
      // What is still to come is read and dropped: see `sendEarly`.
      request.giveBodyBack();
      first = null;
      pieces = null;
      finish({ kind });
    };
    request.takeBody({
      piece(piece) {
        size += piece.length;
        const cost = piece.length + pieceBytes;
        held += cost;
        heldByAll += cost;
        if (size > bodyLimit) refuse("too-large");
        else if (heldByAll > mostHeld && held > alwaysHeld) refuse("overloaded");
        else if (first === null) first = piece;
        else if (pieces === null) pieces = [first, piece];
        else pieces.push(piece);
      },
      end: () => finish({ kind: "body", body: pieces === null ? (first ?? empty) : Buffer.concat(pieces, size) }),
      gone: () => finish({ kind: "gone" }),
    });
  };
}

const empty = Buffer.alloc(0);
