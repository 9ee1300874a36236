import { expect, test } from "vitest";
import { createScrape } from "../../../src/control/probes.ts";

/**
 * A scrape whose renderings take `tookMs` and end when `end` is called. Rests end when `rested` is
 * called.
 */
function open(tookMs: number) {
  let at = 0;
  const ends: (() => void)[] = [];
  const rests: { readonly ms: number; readonly end: () => void }[] = [];
  const scrape = createScrape(
    () =>
      new Promise((resolve) => {
        const text = `rendering ${ends.length + 1}`;
        ends.push(() => {
          at += tookMs;
          resolve(text);
        });
      }),
    {
      elapsed: () => at,
      rest: (ms) => new Promise<void>((resolve) => void rests.push({ ms, end: resolve })),
    },
  );
  const settled = () => new Promise<void>((resolve) => void setImmediate(resolve));
  return { scrape, ends, rests, settled };
}

test("one rendering serves all who wait for it, with one buffer", async () => {
  const { scrape, ends, rests, settled } = open(20);
  const first = scrape();
  await settled();
  // It has begun, so whoever asks now waits for the next one.
  const many = Array.from({ length: 9_000 }, scrape);
  ends[0]?.();
  expect(String(await first)).toBe("rendering 1");
  await settled();
  expect(ends).toHaveLength(1);
  rests[0]?.end();
  await settled();
  expect(ends).toHaveLength(2);
  ends[1]?.();
  const answers = new Set(await Promise.all(many));
  expect([...answers].map(String)).toEqual(["rendering 2"]);
  expect(ends).toHaveLength(2);
});

test("renderings take a tenth of the time, and rest at most a second", async () => {
  for (const [tookMs, restMs] of [
    [20, 180],
    [500, 1_000],
  ] as const) {
    const { scrape, ends, rests, settled } = open(tookMs);
    const answer = scrape();
    await settled();
    ends[0]?.();
    await answer;
    expect(rests[0]?.ms).toBeCloseTo(restMs);
  }
});

test("a rendering that fails does not end the next one", async () => {
  let renderings = 0;
  const scrape = createScrape(
    async () => {
      renderings += 1;
      if (renderings === 1) throw new Error("no gauges");
      return "text";
    },
    { elapsed: () => 0, rest: async () => {} },
  );
  await expect(scrape()).rejects.toThrow("no gauges");
  expect(String(await scrape())).toBe("text");
});
