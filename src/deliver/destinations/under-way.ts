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
