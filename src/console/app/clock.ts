/** The relay's clock minus the browser's, in ms. A browser's clock may be hours off. */
let offset = 0;

export const now = (): number => Date.now() + offset;

/**
 * Corrects the clock by the `Date` of an answer to a request made `tookMs` ago. `Date` has whole
 * seconds, so it leaves a range. Within it the clock stays as it is, so that times do not jump.
 */
export function readClock(date: string | null, tookMs: number): void {
  const at = Date.parse(date ?? "");
  if (Number.isNaN(at)) return;
  const received = Date.now();
  offset = Math.min(Math.max(offset, at - received), at + 1_000 - (received - tookMs));
}
