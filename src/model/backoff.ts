/** `firstMs`, doubled with each further failure in a row (from 1), at most `longestMs`. */
export function growingWait(failures: number, firstMs: number, longestMs: number): number {
  return Math.min(longestMs, firstMs * 2 ** (failures - 1));
}

/** Half to all of a wait, so that callers that failed together do not retry together. `random`: from 0 up to 1. */
export function withJitter(waitMs: number, random: number): number {
  return Math.round(waitMs * (0.5 + random / 2));
}
