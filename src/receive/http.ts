import type { IncomingMessage as Message, ServerResponse } from "node:http";
import { challengeOf, type ErrorCode, errorCodes } from "../model/errors.ts";

// As in app/web-server.ts: an import would load more of node:http than a relay uses.
const { IncomingMessage } = process.getBuiltinModule("node:http");

export interface BodyTaker {
  piece(piece: Buffer): void;
  end(): void;
  gone(): void;
}

export interface TakenRequest extends Pick<Message, "headers"> {
  /** Until the body ends or is given back. */
  takeBody(taker: BodyTaker): void;
  /** The rest goes through the stream again. */
  giveBodyBack(): void;
}

/**
 * The body bypasses the stream, which costs a fifth of `node:http` for a small request
 * (bench/ingest).
 */
export class WebhookRequest extends IncomingMessage implements TakenRequest {
  private taker: BodyTaker | null = null;
  private isTaken = false;

  takeBody(taker: BodyTaker): void {
    this.taker = taker;
    // Marks the stream as read. Otherwise the server would drain the rest itself after the answer.
    this.read(0);
  }

  giveBodyBack(): void {
    this.taker = null;
  }

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

  /**
   * Lets the server release the request after the answer and not treat it as aborted when the
   * connection ends.
   */
  // @ts-expect-error A getter in Node; its types declare a property.
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
  | { readonly kind: "overloaded" }
  | { readonly kind: "gone" };

interface BodyLimits {
  readonly bodyLimit: number;
  readonly mostHeld: number;
}

/** A callback, because every request passes here. */
type ReadBody = (
  request: TakenRequest,
  done: (result: BodyResult) => void,
  bodyLimit?: number,
) => void;

/**
 * Overhead per piece: without it, a megabyte sent in chunks of one byte would count as one
 * megabyte.
 */
const pieceBytes = 128;
/**
 * A smaller body is always read, so that a few senders of large, slow bodies cannot shut out
 * events.
 */
const alwaysHeld = 64 * 1024;

/** Thousands of senders, which are not verified yet, may each send a megabyte and then stop. */
export function createBodyReader({ bodyLimit: usual, mostHeld }: BodyLimits): ReadBody {
  let heldByAll = 0;

  return (request, done, bodyLimit = usual) => {
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
      // `sendEarly` reads and drops the rest.
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
      end: () =>
        finish({
          kind: "body",
          body: pieces === null ? (first ?? empty) : Buffer.concat(pieces, size),
        }),
      gone: () => finish({ kind: "gone" }),
    });
  };
}

const empty = Buffer.alloc(0);

export interface Answer {
  readonly status: number;
  readonly headers: readonly string[];
  /** Text if possible: Node writes text together with the headers, in one system call. */
  readonly body: string | Buffer;
  /** Of a text body. Node writes `latin1` without measuring it first. */
  readonly encoding?: "latin1" | "utf8";
}

export function jsonAnswer(status: number, value: unknown, extra: readonly string[] = []): Answer {
  const body = JSON.stringify(value);
  const length = Buffer.byteLength(body);
  const headers = ["content-type", "application/json", "content-length", String(length), ...extra];
  return { status, headers, body, encoding: length === body.length ? "latin1" : "utf8" };
}

export function errorAnswer(code: ErrorCode, error: string, extra: readonly string[] = []): Answer {
  const challenge = challengeOf(code);
  const headers = challenge === null ? extra : ["www-authenticate", challenge, ...extra];
  return jsonAnswer(errorCodes[code].status, { error, code }, headers);
}

/** `end` closes the connection after the answer. */
export function send(response: ServerResponse, answer: Answer, end = false): void {
  if (response.headersSent || response.destroyed) return;
  response.writeHead(
    answer.status,
    (end ? [...answer.headers, "connection", "close"] : answer.headers) as string[],
  );
  response.end(answer.body, answer.encoding ?? "utf8");
}

/** A sender that is still writing cannot read the answer. */
const mostDropped = 64 * 1024 ** 2;

/**
 * The body may still be arriving: a connection closed with unread bytes is reset, and the reset
 * overtakes the answer.
 */
export function sendEarly(
  request: Message,
  response: ServerResponse,
  answer: Answer,
  end = false,
): void {
  if (request.complete) {
    send(response, answer, end);
    return;
  }
  if (response.headersSent || response.destroyed) return;
  if (end || isTooMuchToDrop(request)) response.shouldKeepAlive = false;
  response.writeHead(answer.status, answer.headers as string[]);
  response.write(answer.body, answer.encoding ?? "utf8");
  dropBody(request, () => response.end());
}

/** Clients such as curl stop sending then. */
export function isTooMuchToDrop({ headers }: Message): boolean {
  return Number(headers["content-length"] ?? 0) > mostDropped;
}

/** Until `server.requestTimeout`. */
export function dropBody(request: Message, done: () => void): void {
  let left = mostDropped;
  request.on("data", (piece: Buffer) => {
    left -= piece.length;
    if (left < 0) request.socket.destroy();
  });
  request.once("end", done);
  request.resume();
}

/**
 * Counts connections whose requests have not been read yet. Node accepts one connection per turn of
 * the event loop and reads its request in the next turn. A connection counts until then, whether it
 * brought a request or not, so a silent client delays nothing for longer.
 */
export function createArrivals() {
  let fresh = 0;
  const end = (): void => {
    fresh -= 1;
  };
  // The first `setImmediate` runs before the loop polls again, the second right after.
  const wait = (): void => void setImmediate(end);
  return {
    opened(): void {
      fresh += 1;
      setImmediate(wait);
    },
    /** True while a request can be expected within one turn of the event loop. */
    expected: (): boolean => fresh > 0,
  };
}
