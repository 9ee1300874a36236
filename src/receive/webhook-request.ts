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
