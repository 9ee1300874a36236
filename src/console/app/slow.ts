import { useEffect, useState } from "preact/hooks";

const slowAfterMs = 3_000;

/**
 * For each slow read in flight, when the data on the page arrived (`performance.now()`). Null: the
 * page shows none.
 */
const reads = new Map<object, number | null>();
const watchers = new Set<() => void>();

/** Of a read that begins now. Returns the function that ends it. */
export function watchRead(shownSince: () => number | null): () => void {
  const read = {};
  const timer = setTimeout(() => {
    reads.set(read, shownSince());
    for (const notify of watchers) notify();
  }, slowAfterMs);
  return () => {
    clearTimeout(timer);
    if (reads.delete(read)) for (const notify of watchers) notify();
  };
}

/**
 * Undefined: no read is slow. Else the age in ms of the oldest data shown, null without any; read
 * again each second.
 */
export function useSlowness(): number | null | undefined {
  const [, render] = useState(0);
  useEffect(() => {
    const notify = () => render((before) => before + 1);
    watchers.add(notify);
    const timer = setInterval(() => reads.size > 0 && notify(), 1_000);
    return () => {
      watchers.delete(notify);
      clearInterval(timer);
    };
  }, []);
  if (reads.size === 0) return undefined;
  const since = [...reads.values()].filter((at) => at !== null);
  return since.length === 0 ? null : performance.now() - Math.min(...since);
}
