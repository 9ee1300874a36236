import type { Dispatcher } from "undici";
import type { AttemptError } from "../../model/delivery.ts";
import { mostInterim } from "../../net/interim-answers.ts";
import { ConnectionFailed } from "./address-guard.ts";
import type { Borrower, Connection, Connections } from "./connections.ts";
import type { Abortable, UrlOutcome } from "./destination.ts";

type Controller = Dispatcher.DispatchController;
type Headers = Parameters<NonNullable<Dispatcher.DispatchHandler["onResponseStart"]>>[2];

/** The part of its destination that an exchange uses. */
interface ExchangePlace {
  readonly connections: Connections;
  /** Milliseconds for the whole exchange. */
  readonly timeout: number;
  /** Longest `Retry-After` that is honored, in milliseconds. */
  readonly maxRetryAfter: number;
  /** Bytes of the answer's body that are kept. */
  readonly keep: number;
  /** Unix milliseconds. */
  readonly clock: () => number;
}

/**
 * One request and its answer, over one connection, under one deadline. A class, because undici calls it back at each step
 * and every attempt has one.
 *
 * waiting for a connection → connecting → sent → answering → over; each step may also end it.
 */
export class Exchange implements Dispatcher.DispatchHandler, Borrower, Abortable {
  readonly signal: AbortSignal;
  index = -1;
  readonly #maySend: () => boolean;
  readonly #place: ExchangePlace;
  readonly #request: Dispatcher.DispatchOptions;
  readonly #resolve: (outcome: UrlOutcome) => void;
  readonly #startedAt = performance.now();
  readonly #deadline: NodeJS.Timeout;
  #connection: Connection | null = null;
  #step: "waiting" | "connecting" | "sent" | "answering" | "over" = "waiting";
  /** The socket was used before, so the server may have closed it just now. */
  #usedSocket = false;
  #renewed = false;
  /** Number of interim answers (1xx). */
  #interim = 0;
  #status = 0;
  #retryAfterMs: number | null = null;
  #responseType: string | null = null;
  #responseEncoding: string | null = null;
  #response: Buffer | null = null;

  constructor(
    place: ExchangePlace,
    request: Dispatcher.DispatchOptions,
    { signal, maySend }: { readonly signal: AbortSignal; readonly maySend: () => boolean },
    resolve: (outcome: UrlOutcome) => void,
  ) {
    this.#place = place;
    this.#request = request;
    this.signal = signal;
    this.#maySend = maySend;
    this.#resolve = resolve;
    this.#deadline = setTimeout(onDeadline, place.timeout, this);
  }

  /** Call once. */
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

  /** The deadline has passed. */
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

  onRequestStart(controller: Controller): void {
    // A process that stood still may have got its connection, or may send once more, when it no longer holds the route.
    if (!this.#maySend()) {
      this.abort();
      controller.abort(new Error("not sent"));
      return;
    }
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
    // A copy, because undici's chunk is a view that would keep the whole read buffer in memory.
    const part = Buffer.from(isTooLong ? chunk.subarray(0, keep - kept) : chunk);
    this.#response = this.#response === null ? part : Buffer.concat([this.#response, part]);
    // The rest may be large, and closing is cheaper than reading it.
    if (isTooLong) this.#answered(false);
  }

  onResponseEnd(): void {
    this.#answered(true);
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    if (this.#step === "over") return;
    const failure = attemptFailure(error);
    const connection = this.#connection;
    // A server may close an idle connection while a request is on its way. If a used socket brought no byte of an answer,
    // the request is sent once more on a new socket, within the same attempt.
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

/** Why an attempt got no answer, as a code and as text for the operator. */
interface AttemptFailure {
  readonly error: AttemptError;
  readonly text: string;
}

const protocolCodes = new Set(["UND_ERR_HEADERS_OVERFLOW", "UND_ERR_INVALID_ARG", "UND_ERR_NOT_SUPPORTED"]);
/** undici's errors for an answer without request and an upgrade (101). */
const protocolMessages = new Set(["bad response", "bad upgrade"]);

/** Classifies an error of undici or of the connector. */
function attemptFailure(error: Error): AttemptFailure {
  if (error instanceof ConnectionFailed) return { error: error.error, text: error.message };
  const code = "code" in error && typeof error.code === "string" ? error.code : "";
  if (error.name === "HTTPParserError" || protocolCodes.has(code) || protocolMessages.has(error.message)) {
    return { error: "protocol", text: `the answer is not valid HTTP/1.1: ${error.message.slice(0, 300)}` };
  }
  // With TLS 1.3 a server refuses a missing client certificate only after the handshake.
  if (/^ERR_(SSL|TLS)/.test(code)) return { error: "tls", text: `TLS failed (${code}): ${error.message.slice(0, 300)}` };
  return { error: "reset", text: `the connection was closed before the answer was complete (${code === "" ? error.message : code})` };
}

const seconds = /^\d+$/;
/** The three formats of RFC 9110, section 5.6.7. `Date.parse` alone would accept many more. */
const imfDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const rfc850Date = /^[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/;
const asctimeDate = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * The wait that a `Retry-After` header asks for from `now` (unix milliseconds), in milliseconds from 0 to `longest`: a
 * wrong year must not delay a delivery forever. Accepts seconds or an HTTP date; null when absent or neither.
 */
export function parseRetryAfter(header: string | readonly string[] | undefined, now: number, longest: number): number | null {
  const bounded = (ms: number): number => Math.min(Math.max(ms, 0), longest);
  const text = (typeof header === "string" ? header : header?.[0])?.trim();
  if (text === undefined) return null;
  if (seconds.test(text)) return bounded(Number(text) * 1000);
  const isDate = imfDate.test(text) || rfc850Date.test(text);
  const at = isDate ? Date.parse(text) : asctimeDate.test(text) ? Date.parse(`${text} GMT`) : Number.NaN;
  return Number.isNaN(at) ? null : bounded(at - now);
}
