/** Time as the relay sees it; tests pass one of their own, so that a ten-hour backoff takes a millisecond. */
export interface Clock {
  /** Unix milliseconds. */
  now(): number;
  /** Calls `run` once, `ms` from now; the returned function takes it back. */
  after(ms: number, run: () => void): () => void;
}
