import type { AttemptResult, UrlResult } from "../../event/delivery.ts";
import type { DeliveryId } from "../../event/ids.ts";
import type { KeptHeaders } from "../../event/received.ts";

/** A delivery as it leaves the relay. */
export interface OutgoingDelivery {
  /** The same over all attempts and replays: downstream dedupes by it. */
  readonly id: DeliveryId;
  /** Event kind. */
  readonly event: string;
  readonly eventId: string | null;
  /** 1 for the first. */
  readonly attempt: number;
  /** How often somebody asked for it once more; 0: it is no replay. */
  readonly replays: number;
  /** What to send, already original or enriched. */
  readonly body: Buffer;
  readonly contentType: string;
  /** Of an automation's request that said one: `body` is as it came, compressed or not. */
  readonly contentEncoding: string | null;
  /** The original signature headers; `{}` unless the destination asks for them. */
  readonly passHeaders: KeptHeaders;
}

/** What came of one attempt. */
export interface AttemptOutcome<Result extends AttemptResult = AttemptResult> {
  readonly result: Result;
  readonly tookMs: number;
  /** The first 4 KiB of the answer's body, or the text of the error. */
  readonly response: Buffer | null;
  /** The answer's content type, when there was an answer that said it. */
  readonly responseType?: string | null;
  /** Its content encoding: `response` is as it came, compressed or not. */
  readonly responseEncoding?: string | null;
}

/** Where deliveries go. The port of the dispatcher. */
export interface Destination<Result extends AttemptResult = AttemptResult> {
  /** One attempt. Never rejects: what happened is data. `signal` aborts it (shutdown). */
  send(delivery: OutgoingDelivery, signal: AbortSignal): Promise<AttemptOutcome<Result>>;
  /** Ends all connections. Attempts still under way end as `aborted`. */
  close(): Promise<void>;
}

export type UrlOutcome = AttemptOutcome<UrlResult>;
export type UrlDestination = Destination<UrlResult>;

/** An attempt that can be aborted. */
export interface Abortable {
  /** Aborts it, once it is aborted itself. */
  readonly signal: AbortSignal;
  /** Its place among those under way; -1: it is not one of them. Theirs to change. */
  index: number;
  abort(): void;
}

interface Watch {
  readonly signal: AbortSignal;
  readonly abort: () => void;
  /** Attempts under way that it aborts. */
  count: number;
}

/**
 * The attempts of a destination that are under way.
 *
 * Neither a Set nor a listener on the signal for each of them: a Set that is filled and emptied all the time is made anew
 * each few dozen attempts, and an old one leads to the next, as a listener that was removed does to those after it. One
 * that has outlived two collections then keeps all attempts that come after it until the next full collection.
 */
export class UnderWay {
  readonly #attempts: Abortable[] = [];
  /** One for each signal of those under way: seldom more than one. */
  readonly #watches: Watch[] = [];

  add(attempt: Abortable): void {
    attempt.index = this.#attempts.push(attempt) - 1;
    this.#watch(attempt.signal).count += 1;
  }

  /** Nothing happens when it is over already. */
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
