import type { Tally } from "./tally.ts";

/** Clocks that are set a little back let neighbours look the wrong way round. */
const slackMs = 60_000;

const beforeAll = { seq: 0, receivedAt: Number.NEGATIVE_INFINITY };

/**
 * Numbers of events that are gone. Each is given once, in order, so one between two that are there was taken away: by
 * retention, when it may have reached that far, else by nobody who should.
 */
export function createGaps<Key extends string | number>(tally: Tally<Key>, isFromStart: boolean, sweptBefore: () => number | null) {
  let last: { readonly seq: number; readonly receivedAt: number } | null = isFromStart ? beforeAll : null;
  const gone = { swept: 0, missing: 0 };

  return {
    /** Events in the order of their numbers. */
    next(seq: number, receivedAt: number, isCounted: boolean): void {
      const before = last;
      last = { seq, receivedAt };
      // Where a range begins in the middle, nobody knows what was before it.
      const count = seq - (before?.seq ?? seq - 1) - 1;
      if (count === 0 || !isCounted) return;
      const swept = sweptBefore();
      if (swept !== null && Math.min(before?.receivedAt ?? receivedAt, receivedAt) <= swept + slackMs) {
        gone.swept += count;
        return;
      }
      gone.missing += count;
      const many = count === 1 ? `event ${seq - 1} is` : `events ${seq - count} to ${seq - 1} are`;
      tally.offence("event missing", seq - count, null, `${many} gone`, count);
    },
    result: () => gone,
  };
}
