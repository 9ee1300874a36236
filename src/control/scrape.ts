import { setTimeout as wait } from "node:timers/promises";

/** Most of the process's time that renderings take, and the longest rest between two, in ms. */
const share = 0.1;
const longestRestMs = 1_000;

interface Time {
  /** In ms. */
  elapsed(): number;
  rest(ms: number): Promise<unknown>;
}

const systemTime: Time = { elapsed: () => performance.now(), rest: (ms) => wait(ms, undefined, { ref: false }) };

/**
 * Renders for all callers that wait, once. The next rendering begins after a rest in proportion, so that callers without a
 * token cannot keep the process busy. Nobody gets a text from before the call, and all answers share one buffer.
 */
export function createScrape(render: () => Promise<string>, { elapsed, rest }: Time = systemTime): () => Promise<Buffer> {
  let waiting: Promise<Buffer> | null = null;
  let rested: Promise<unknown> = Promise.resolve();

  function next(): Promise<Buffer> {
    let startedAt = 0;
    const text = rested.then(async () => {
      // Who calls from now on waits for the next rendering.
      waiting = null;
      startedAt = elapsed();
      return Buffer.from(await render());
    });
    const rests = () => rest(Math.min(longestRestMs, (elapsed() - startedAt) * (1 / share - 1)));
    rested = text.then(rests, rests);
    return text;
  }

  return () => {
    waiting ??= next();
    return waiting;
  };
}
