import type { Dispatcher } from "undici";
import { attemptFailure } from "./attempt-failure.ts";
import type { Borrower, Connection, Connections } from "./connections.ts";
import type { UrlOutcome } from "./destination.ts";
import { parseRetryAfter } from "./retry-after.ts";
import type { Abortable } from "./under-way.ts";

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2];

/** A server that floods the relay with interim answers would keep it busy until the deadline. */
const mostInterim = 32;

/** What an exchange uses of its destination. */
export interface ExchangePlace {
  readonly connections: Connections;
  /** Milliseconds for the whole exchange. */
  readonly timeout: number;
  /** Longest `Retry-After` that is honored, in milliseconds. */
  readonly maxRetryAfter: number;
  /** Bytes of the answer's body that are kept; a longer one is cut off. */
  readonly keep: number;
  /** Unix milliseconds. */
  readonly clock: () => number;
}

/**
 * One request and its answer, over one connection, under one deadline. A class, because undici calls
 * it back at each step and there is one for each attempt.
 *
 * waiting for a connection → connecting → sent → answering → over; each step may also end it.
 */
export class Exchange implements Dispatcher.DispatchHandler, Borrower, Abortable {
  readonly signal: AbortSignal;
  index = -1;
  readonly #place: ExchangePlace;
  readonly #request: Dispatcher.DispatchOptions;
  readonly #resolve: (outcome: UrlOutcome) => void;
  readonly #startedAt = performance.now();
  readonly #deadline: NodeJS.Timeout;
  #connection: Connection | null = null;
  #step: "waiting" | "connecting" | "sent" | "answering" | "over" = "waiting";
  /** The socket had brought an answer before: it may have been closed at the other end just now. */
  #usedSocket = false;
  #renewed = false;
  /** Answers 100 to 199 (early hints), which announce the answer and are none. */
  #interim = 0;
  #status = 0;
  #retryAfterMs: number | null = null;
  #responseType: string | null = null;
  #responseEncoding: string | null = null;
  #response: Buffer | null = null;

  constructor(place: ExchangePlace, request: Dispatcher.DispatchOptions, signal: AbortSignal, resolve: (outcome: UrlOutcome) => void) {
    this.#place = place;
    this.#request = request;
    this.signal = signal;
    this.#resolve = resolve;
    this.#deadline = setTimeout(onDeadline, place.timeout, this);
  }

  /** To be called once. */
  start(): void {
    this.#place.connections.borrow(this);
  }

  use(connection: Connection): void {
    this.#connection = connection;
    this.#step = "connecting";
    connection.client.dispatch(this.#request, this);
  }

  /** The relay is shutting down. */
  abort(): void {
    this.#fail("aborted", "the relay was shutting down");
  }

  /** The deadline has come. */
  expire(): void {
    const until = `within ${this.#place.timeout} ms`;
    const texts = {
      waiting: `no free connection ${until}`,
      connecting: `no connection ${until}`,
      sent: `no answer ${until}`,
      answering: `answered ${this.#status}, but the answer did not end ${until}`,
      over: "",
    };
    this.#fail("timeout", texts[this.#step]);
  }

  onRequestStart(): void {
    this.#step = "sent";
    this.#usedSocket = this.#connection?.answered === true;
  }

  onResponseStarted(): void {
    this.#usedSocket = false;
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    if (this.#step === "over") return;
    if (status < 200) {
      this.#interim += 1;
      if (this.#interim > mostInterim) this.#fail("protocol", `more than ${mostInterim} interim answers (1xx)`);
      return;
    }
    this.#step = "answering";
    this.#status = status;
    const { clock, maxRetryAfter } = this.#place;
    this.#retryAfterMs = parseRetryAfter(headers["retry-after"], clock(), maxRetryAfter);
    this.#responseType = firstOf(headers["content-type"]);
    this.#responseEncoding = firstOf(headers["content-encoding"]);
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#step === "over") return;
    const kept = this.#response?.length ?? 0;
    const { keep } = this.#place;
    const isTooLong = kept + chunk.length > keep;
    // A copy: undici's chunk is a view on all that was read from the socket, which would be kept with it.
    const part = Buffer.from(isTooLong ? chunk.subarray(0, keep - kept) : chunk);
    this.#response = this.#response === null ? part : Buffer.concat([this.#response, part]);
    // The rest may be 10 GB: closing costs less than reading on.
    if (isTooLong) this.#answered(false);
  }

  onResponseEnd(): void {
    this.#answered(true);
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    if (this.#step === "over") return;
    const failure = attemptFailure(error);
    const connection = this.#connection;
    // A server may close an idle connection while a request is on its way to it. No byte of an answer
    // came and the socket was not new, so it is sent once more at once, on a new one, within the same attempt.
    if (failure.error === "reset" && this.#usedSocket && !this.#renewed && connection !== null) {
      this.#renewed = true;
      this.use(this.#place.connections.renew(connection));
      return;
    }
    this.#fail(failure.error, failure.text);
  }

  #answered(isWhole: boolean): void {
    this.#end(
      {
        result: { kind: "answered", status: this.#status, retryAfterMs: this.#retryAfterMs },
        tookMs: this.#tookMs(),
        response: this.#response,
        responseType: this.#responseType,
        responseEncoding: this.#responseEncoding,
      },
      isWhole,
    );
  }

  #fail(error: Parameters<typeof failed>[0], text: string): void {
    this.#end({ result: failed(error), tookMs: this.#tookMs(), response: Buffer.from(text) }, false);
  }

  #end(outcome: UrlOutcome, isWhole: boolean): void {
    if (this.#step === "over") return;
    this.#step = "over";
    clearTimeout(this.#deadline);
    const { connections } = this.#place;
    const connection = this.#connection;
    if (connection === null) connections.forget(this);
    else if (!isWhole) connections.discard(connection);
    else {
      connection.answered = true;
      connections.giveBack(connection);
    }
    this.#resolve(outcome);
  }

  #tookMs(): number {
    return Math.round(performance.now() - this.#startedAt);
  }
}

function firstOf(header: string | string[] | undefined): string | null {
  return (typeof header === "string" ? header : header?.[0])?.slice(0, 256) ?? null;
}

function onDeadline(exchange: Exchange): void {
  exchange.expire();
}

function failed(error: ReturnType<typeof attemptFailure>["error"]): UrlOutcome["result"] {
  return { kind: "failed", error };
}
