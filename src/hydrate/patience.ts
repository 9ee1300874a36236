/** First wait when the service cannot be asked, doubled each time. */
const firstWaitMs = 30_000;
/** Longest wait: after this it is worth a try, even where the service said it would take longer (a plan can be changed). */
const longestWaitMs = 10 * 60_000;

/**
 * How long to leave the service alone, in ms.
 *
 * @param failures rounds in a row without any answer, from 1
 * @param until when it can be asked again, as far as that is known, in ms from now
 * @param random from 0 up to 1
 */
export function waitAfter(failures: number, until: number | null, random: number): number {
  if (until !== null && until > 0) return Math.min(longestWaitMs, until);
  const full = Math.min(longestWaitMs, firstWaitMs * 2 ** Math.min(10, failures - 1));
  return Math.round(full * (0.5 + random / 2));
}

/** How often one message may fail, while others are answered or were before, until it is left as not read. */
export const mostFailuresOfOne = 5;

/** How long to wait when the day's calls are used up, in ms. */
export const budgetWaitMs = 10 * 60_000;
export const dayMs = 86_400_000;
