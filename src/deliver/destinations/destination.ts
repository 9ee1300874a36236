import type { AttemptResult, UrlResult } from "../../model/delivery.ts";
import type { KeptHeaders } from "../../model/event.ts";
import type { DeliveryId } from "../../model/ids.ts";

/** A delivery as it leaves the relay. */
export interface OutgoingDelivery {
  /** The same over all attempts and replays, so that the downstream can dedupe by it. */
  readonly id: DeliveryId;
  /** Event kind. */
  readonly event: string;
  readonly eventId: string | null;
  /** 1 for the first. */
  readonly attempt: number;
  /** Number of replays so far; 0: not a replay. */
  readonly replays: number;
  /** The bytes to send, original or enriched. */
  readonly body: Buffer;
  readonly contentType: string;
  /** Of an automation's request that had one. `body` is as received, compressed or not. */
  readonly contentEncoding: string | null;
  /** The original signature headers; `{}` unless the destination asks for them. */
  readonly passHeaders: KeptHeaders;
  /** W3C trace context of this attempt; absent while traces are off. */
  readonly traceparent?: string;
}

/** The outcome of one attempt. */
export interface AttemptOutcome<Result extends AttemptResult = AttemptResult> {
  readonly result: Result;
  readonly tookMs: number;
  /** The first 4 KiB of the answer's body, or the text of the error. */
  readonly response: Buffer | null;
  /** The answer's content type, if any. */
  readonly responseType?: string | null;
  /** The answer's content encoding. `response` is as received, compressed or not. */
  readonly responseEncoding?: string | null;
}

/** Where deliveries go: the dispatcher's port. */
export interface Destination<Result extends AttemptResult = AttemptResult> {
  /**
   * One attempt. Never rejects: failures are outcomes. `signal` aborts it (shutdown). `maySend` is asked right before bytes
   * leave; false aborts the attempt. Default: always.
   */
  send(delivery: OutgoingDelivery, signal: AbortSignal, maySend?: () => boolean): Promise<AttemptOutcome<Result>>;
  /** Closes all connections. Attempts in flight end as `aborted`. */
  close(): Promise<void>;
}

export type UrlOutcome = AttemptOutcome<UrlResult>;
export type UrlDestination = Destination<UrlResult>;

export const always = (): boolean => true;

/** An attempt that can be aborted. */
export interface Abortable {
  /** Aborts the attempt. */
  readonly signal: AbortSignal;
  /** Its index in {@link InFlight}, which sets it; -1: not in flight. */
  index: number;
  abort(): void;
}

interface Watch {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  /** Attempts in flight with this signal. */
  count: number;
}

/**
 * The attempts of a destination that are in flight.
 *
 * Uses neither a Set nor a listener per attempt. V8 replaces the table of a busy Set every few dozen attempts, and an old
 * table links to the next, as removed listeners link to later ones. One that reached the old generation then keeps all
 * later attempts in memory until the next full collection.
 */
export class InFlight {
  readonly #attempts: Abortable[] = [];
  /** One per signal, so seldom more than one. */
  readonly #watches: Watch[] = [];

  add(attempt: Abortable): void {
    attempt.index = this.#attempts.push(attempt) - 1;
    this.#watch(attempt.signal).count += 1;
  }

  /** Does nothing when the attempt is over already. */
  remove(attempt: Abortable): void {
    const { index } = attempt;
    if (index < 0) return;
    const last = this.#attempts.pop() as Abortable;
    if (last !== attempt) {
      this.#attempts[index] = last;
      last.index = index;
    }
    attempt.index = -1;
    const watch = this.#watch(attempt.signal);
    watch.count -= 1;
    if (watch.count > 0) return;
    this.#watches.splice(this.#watches.indexOf(watch), 1);
    watch.signal.removeEventListener("abort", watch.abort);
  }

  abortAll(): void {
    for (const attempt of [...this.#attempts]) attempt.abort();
  }

  #watch(signal: AbortSignal): Watch {
    const known = this.#watches.find((watch) => watch.signal === signal);
    if (known !== undefined) return known;
    const abort = (): void => {
      for (const attempt of [...this.#attempts]) if (attempt.signal === signal) attempt.abort();
    };
    const watch: Watch = { signal, abort, count: 0 };
    this.#watches.push(watch);
    signal.addEventListener("abort", abort);
    return watch;
  }
}
