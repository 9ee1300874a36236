import type { Dispatcher } from "undici";
import { type Clock, systemClock } from "../model/clock.ts";
import { type Connection, type ConnectionHandler, type HttpPool, mostInterim } from "./connect.ts";

type Controller = Dispatcher.DispatchController;
/** Names in lower case. */
type Headers = Readonly<Record<string, string | string[] | undefined>>;

/** `sent`: a byte of the request may have reached the server. */
export type Exchanged =
  /** `isCut`: the body was longer than `maxBytes`. */
  | {
      readonly kind: "answered";
      readonly status: number;
      readonly headers: Headers;
      readonly body: Buffer;
      readonly isCut: boolean;
    }
  /** `status`: 0: no answer began. */
  | {
      readonly kind: "timeout";
      readonly step: Step;
      readonly status: number;
      readonly sent: boolean;
    }
  /** `maySend` returned false. */
  | { readonly kind: "aborted"; readonly sent: boolean }
  | { readonly kind: "failed"; readonly error: Error; readonly sent: boolean };

type Step = "waiting" | "connecting" | "sent" | "answering";

interface ExchangeLimits {
  /** From waiting for a connection to the last byte. */
  readonly timeoutMs: number;
  readonly maxBytes: number;
  readonly maySend?: () => boolean;
  /**
   * Whether to send once more after this error of a used socket, which the server may have closed
   * just now. Default: never.
   */
  readonly resends?: (error: Error) => boolean;
  readonly after?: Clock["after"];
}

export function exchange(
  pool: HttpPool,
  request: Dispatcher.DispatchOptions,
  limits: ExchangeLimits,
): Promise<Exchanged> {
  return new Promise((resolve) => pool.dispatch(request, new Exchange(request, limits, resolve)));
}

/**
 * undici's timeouts restart with each chunk, and its `request()` does not report whether and over
 * which socket it was sent.
 */
class Exchange implements ConnectionHandler {
  readonly #request: Dispatcher.DispatchOptions;
  readonly #limits: ExchangeLimits;
  readonly #resolve: (exchanged: Exchanged) => void;
  readonly #cancelDeadline: () => void;
  #step: Step = "waiting";
  #isOver = false;
  #sent = false;
  #connection: Connection | null = null;
  #controller: Controller | null = null;
  #usedSocket = false;
  #resent = false;
  #interim = 0;
  #status = 0;
  #headers: Headers = {};
  readonly #chunks: Buffer[] = [];
  #length = 0;

  constructor(
    request: Dispatcher.DispatchOptions,
    limits: ExchangeLimits,
    resolve: (exchanged: Exchanged) => void,
  ) {
    this.#request = request;
    this.#limits = limits;
    this.#resolve = resolve;
    const { after = systemClock.after, timeoutMs } = limits;
    this.#cancelDeadline = after(timeoutMs, () =>
      this.#cutOff({ kind: "timeout", step: this.#step, status: this.#status, sent: this.#sent }),
    );
  }

  connecting(connection: Connection): void {
    this.#connection = connection;
    this.#step = "connecting";
  }

  onRequestStart(controller: Controller): void {
    this.#controller = controller;
    // undici requeues a request when a socket ends in certain ways.
    if (this.#sent && this.#limits.resends === undefined) this.#fail("sent twice", "sent twice");
    else if (this.#limits.maySend?.() === false)
      this.#cutOff({ kind: "aborted", sent: this.#sent });
    if (this.#isOver) controller.abort(new Error("given up"));
    else {
      this.#step = "sent";
      this.#sent = true;
      this.#usedSocket = this.#connection?.answered === true;
    }
  }

  onResponseStarted(): void {
    this.#usedSocket = false;
  }

  onResponseStart(_controller: Controller, status: number, headers: Headers): void {
    // Also called for 103 and its like, before the answer: the last one counts.
    if (status < 200) {
      this.#interim += 1;
      if (this.#interim > mostInterim)
        this.#fail("TOO_MANY_INTERIM_ANSWERS", `more than ${mostInterim} interim answers (1xx)`);
      return;
    }
    this.#step = "answering";
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    if (this.#isOver) return;
    const room = this.#limits.maxBytes - this.#length;
    this.#length += chunk.length;
    // A copy, because undici's chunk is a view that would keep the whole read buffer in memory.
    this.#chunks.push(Buffer.from(chunk.subarray(0, room)));
    // The rest may be large, and closing is cheaper than reading it.
    if (chunk.length > room) this.#cutOff(this.#answer(true));
  }

  onResponseEnd(): void {
    if (this.#connection !== null) this.#connection.answered = true;
    this.#end(this.#answer(false));
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    const connection = this.#connection;
    if (
      !this.#isOver &&
      this.#usedSocket &&
      !this.#resent &&
      connection !== null &&
      this.#limits.resends?.(error) === true
    ) {
      this.#resent = true;
      // Over the same connection, which gets a new socket once undici has taken leave of the old
      // one.
      queueMicrotask(() => connection.dispatch(this.#request, this));
    } else this.#end({ kind: "failed", error, sent: this.#sent });
  }

  #answer(isCut: boolean): Exchanged {
    const [first = Buffer.alloc(0), ...others] = this.#chunks;
    const body = others.length === 0 ? first : Buffer.concat(this.#chunks);
    return { kind: "answered", status: this.#status, headers: this.#headers, body, isCut };
  }

  #fail(code: string, message: string): void {
    this.#cutOff({
      kind: "failed",
      error: Object.assign(new Error(message), { code }),
      sent: true,
    });
  }

  /** Closes the connection if bytes have left. */
  #cutOff(exchanged: Exchanged): void {
    if (this.#end(exchanged)) this.#controller?.abort(new Error("given up"));
  }

  #end(exchanged: Exchanged): boolean {
    if (this.#isOver) return false;
    this.#isOver = true;
    this.#cancelDeadline();
    this.#resolve(exchanged);
    return true;
  }
}

/** Without the message, which can quote the request. */
export const codeOf = (error: Error): string =>
  "code" in error && typeof error.code === "string" ? error.code : error.name;

const wholeSeconds = /^\d+$/;
/** The three formats of RFC 9110, section 5.6.7. `Date.parse` alone would accept many more. */
const imfDate = /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;
const rfc850Date = /^[A-Z][a-z]+day, \d{2}-[A-Z][a-z]{2}-\d{2} \d{2}:\d{2}:\d{2} GMT$/;
const asctimeDate = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * In ms, at most `longest`: a wrong year must not delay a delivery forever. Null when absent or
 * malformed.
 */
export function retryAfterMs(
  header: string | readonly string[] | undefined,
  now: number,
  longest: number,
): number | null {
  const bounded = (ms: number): number => Math.min(Math.max(ms, 0), longest);
  const text = (typeof header === "string" ? header : header?.[0])?.trim();
  if (text === undefined) return null;
  if (wholeSeconds.test(text)) return bounded(Number(text) * 1000);
  const at = httpDate(text);
  return at === null ? null : bounded(at - now);
}

function httpDate(text: string): number | null {
  const isDate = imfDate.test(text) || rfc850Date.test(text);
  const at = isDate
    ? Date.parse(text)
    : asctimeDate.test(text)
      ? Date.parse(`${text} GMT`)
      : Number.NaN;
  return Number.isNaN(at) ? null : at;
}
