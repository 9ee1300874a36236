/**
 * Counts connections whose requests have not been read yet. Node accepts one connection per turn of the event loop and
 * reads its request in the next turn. A connection counts until then, whether it brought a request or not, so a silent
 * client delays nothing for longer.
 */
export function createArrivals() {
  let fresh = 0;
  const end = (): void => {
    fresh -= 1;
  };
  // The first `setImmediate` runs before the loop polls again, the second right after.
  const wait = (): void => void setImmediate(end);
  return {
    opened(): void {
      fresh += 1;
      setImmediate(wait);
    },
    /** True while a request can be expected within one turn of the event loop. */
    expected: (): boolean => fresh > 0,
  };
}
