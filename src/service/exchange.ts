import { brotliDecompressSync, gunzipSync, inflateSync, zstdDecompressSync } from "node:zlib";
import type { Dispatcher } from "undici";
import type { Clock } from "../model/clock.ts";
import { mostInterim } from "../net/interim-answers.ts";
import type { Answer } from "./answers.ts";

type Controller = Dispatcher.DispatchController;

/** The result of one request. `sent`: a byte of it may have reached the service. */
export type Exchanged =
  | { readonly type: "answered"; readonly answer: Answer }
  /** The body is longer than allowed. The rest was not read, and `answer` has an empty body. */
  | { readonly type: "too-large"; readonly answer: Answer }
  | { readonly type: "timeout"; readonly sent: boolean }
  /** The signal was aborted first. */
  | { readonly type: "aborted"; readonly sent: boolean; readonly reason: unknown }
  | { readonly type: "failed"; readonly code: string; readonly sent: boolean };

interface ExchangeLimits {
  readonly clock: Clock;
  /** In all: waiting for a connection, connecting, and reading the answer to its last byte. */
  readonly timeoutMs: number;
  readonly maxBodyBytes: number;
  readonly signal: AbortSignal | undefined;
}

/** Makes one request and reads its whole answer within the limits. Never rejects. */
export function exchange(dispatcher: Dispatcher, request: Dispatcher.DispatchOptions, limits: ExchangeLimits): Promise<Exchanged> {
  return new Promise((resolve) => {
    if (limits.signal?.aborted) return resolve({ type: "aborted", sent: false, reason: limits.signal.reason });
    const running = new Exchange(limits, resolve);
    try {
      dispatcher.dispatch(request, running);
    } catch (error) {
      running.onResponseError(null, error as Error);
    }
  });
}

/**
 * One request under one deadline. undici's own timeouts restart with each chunk, so an answer that trickles in never
 * trips them. Its `request()` cannot drop a request that waits for a connection, nor report whether it was sent. The
 * handler interface can: undici calls `onRequestStart` right before the first byte, and writes none if that aborts.
 */
class Exchange implements Dispatcher.DispatchHandler {
  readonly #limits: ExchangeLimits;
  readonly #resolve: (exchanged: Exchanged) => void;
  readonly #cancelDeadline: () => void;
  #controller: Controller | null = null;
  #over = false;
  #status = 0;
  #interim = 0;
  #headers: Answer["headers"] = {};
  #chunks: Buffer[] = [];
  #length = 0;

  constructor(limits: ExchangeLimits, resolve: (exchanged: Exchanged) => void) {
    this.#limits = limits;
    this.#resolve = resolve;
    this.#cancelDeadline = limits.clock.after(limits.timeoutMs, () => this.#cutOff({ type: "timeout", sent: this.#sent }));
    limits.signal?.addEventListener("abort", this);
  }

  /** The signal was aborted. */
  handleEvent(): void {
    this.#cutOff({ type: "aborted", sent: this.#sent, reason: this.#limits.signal?.reason });
  }

  onRequestStart(controller: Controller): void {
    // Over: it must not be sent any more. Started before: undici requeues a request when a socket ends in certain ways,
    // and a send must never go out twice.
    if (this.#sent) this.#cutOff({ type: "failed", code: "sent twice", sent: true });
    if (this.#over) controller.abort(new Error("given up"));
    else this.#controller = controller;
  }

  onResponseStart(_controller: Controller, status: number, headers: Answer["headers"]): void {
    // Also called for 103 and its like, before the answer: the last one counts.
    if (status < 200) {
      this.#interim += 1;
      if (this.#interim > mostInterim) this.#cutOff({ type: "failed", code: "TOO_MANY_INTERIM_ANSWERS", sent: true });
      return;
    }
    this.#status = status;
    this.#headers = headers;
  }

  onResponseData(_controller: Controller, chunk: Buffer): void {
    this.#length += chunk.length;
    if (this.#length > this.#limits.maxBodyBytes) this.#cutOff({ type: "too-large", answer: this.#answer([]) });
    else this.#chunks.push(chunk);
  }

  onResponseEnd(): void {
    if (this.#end()) this.#resolve({ type: "answered", answer: this.#answer(this.#chunks) });
  }

  onResponseError(_controller: Controller | null, error: Error): void {
    if (this.#end()) this.#resolve({ type: "failed", code: codeOf(error), sent: this.#sent });
  }

  get #sent(): boolean {
    return this.#controller !== null;
  }

  #answer(chunks: Buffer[]): Answer {
    return { status: this.#status, headers: this.#headers, bytes: Buffer.concat(chunks) };
  }

  #cutOff(exchanged: Exchanged): void {
    if (!this.#end()) return;
    this.#resolve(exchanged);
    this.#controller?.abort(new Error("given up"));
  }

  /** True the first time. */
  #end(): boolean {
    if (this.#over) return false;
    this.#over = true;
    this.#cancelDeadline();
    this.#limits.signal?.removeEventListener("abort", this);
    return true;
  }
}

/** The code of a system or undici error. The message is dropped because it can quote the request. */
function codeOf(error: unknown): string {
  // A name with several addresses fails with one error for each.
  const [first = error] = error instanceof AggregateError ? error.errors : [];
  const { code, name } = first as { code?: unknown; name?: unknown };
  return typeof code === "string" ? code : typeof name === "string" ? name : "unknown";
}

const decoders: Readonly<Record<string, (bytes: Uint8Array, limits: { readonly maxOutputLength: number }) => Buffer>> = {
  gzip: gunzipSync,
  "x-gzip": gunzipSync,
  deflate: inflateSync,
  br: brotliDecompressSync,
  zstd: zstdDecompressSync,
};
/** A chain of encodings multiplies the work per answer; proxies add one encoding. */
const mostEncodings = 2;

/**
 * Decompresses the body, because some proxies compress unasked. `problem`: why that failed. The body never grows longer
 * than `maxBytes`.
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
