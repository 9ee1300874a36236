import type { IncomingMessage as Message } from "node:http";

// As in app/web-server.ts: an import would load more of node:http than a relay uses.
const { IncomingMessage } = process.getBuiltinModule("node:http");

/** Gets a request's body as Node's parser finds it. */
export interface BodyTaker {
  piece(piece: Buffer): void;
  /** The body is complete. */
  end(): void;
  /** The sender went away before it was. */
  gone(): void;
}

/** A request as far as its body is concerned. */
export interface TakenRequest extends Pick<Message, "headers"> {
  /** From now on the body is the taker's, until one of its two ends, or until it is given back. */
  takeBody(taker: BodyTaker): void;
  /** What is still to come goes through the stream, as of any other request: for those who wait for its end. */
  giveBodyBack(): void;
}

/**
 * A request whose body can be taken as the parser finds it. Through the stream each body makes four turns of Node's queue
 * of ticks, two of them for events that nobody hears: a fifth of what `node:http` costs for a small request (bench/ingest).
 */
export class WebhookRequest extends IncomingMessage implements TakenRequest {
  private taker: BodyTaker | null = null;
  private isTaken = false;

  takeBody(taker: BodyTaker): void {
    this.taker = taker;
    // Tells the server that somebody reads; else it would read what is left itself, once the answer is out.
    this.read(0);
  }

  giveBodyBack(): void {
    this.taker = null;
  }

  /** Node's parser calls it with each piece of the body, and with null at its end. */
  override push(piece: Buffer | null): boolean {
    const { taker } = this;
    if (taker === null) return super.push(piece);
    if (piece === null) {
      this.taker = null;
      this.isTaken = true;
      taker.end();
    } else taker.piece(piece);
    return true;
  }

  /** So that the server lets go of it after the answer, and takes it for no broken one when the connection ends. */
  // @ts-expect-error A getter in Node; its types say property.
  override get readableEnded(): boolean {
    // @ts-expect-error The same.
    return this.isTaken || super.readableEnded;
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    const { taker } = this;
    this.taker = null;
    super._destroy(error, done);
    taker?.gone();
  }
}

export type BodyResult =
  | { readonly kind: "body"; readonly body: Buffer }
  | { readonly kind: "too-large" }
  /** Too much is held in memory for bodies that are not complete yet. */
  | { readonly kind: "overloaded" }
  /** The sender went away. */
  | { readonly kind: "gone" };

interface BodyLimits {
  /** Largest body, in bytes. */
  readonly bodyLimit: number;
  /** Bytes held for all incomplete bodies together. */
  readonly mostHeld: number;
}

/** Reads a request's body as raw bytes. `done` is called once; a plain callback, because this is on the path of every request. */
type ReadBody = (request: TakenRequest, done: (result: BodyResult) => void) => void;

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
