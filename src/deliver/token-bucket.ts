export interface TokenBucket {
  /** Takes a token when there is one. */
  take(): boolean;
  /** Unix milliseconds at which `take` will next succeed; now or earlier when it would succeed at once. */
  nextAt(): number;
}

/** Lets `perSecond` attempts a second start. `clock` gives unix milliseconds. */
export function createTokenBucket(_perSecond: number, _clock: () => number): TokenBucket {
  throw new Error("not written yet");
}
