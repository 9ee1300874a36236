// Slow: it parks and releases a whole campaign.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

interface Steps {
  readonly perSecond: number;
}

// The bench itself fails when a known event is missing, or the flood does not go.
test("flood parks, releases, settles and deletes a campaign of unknown wamids, and frees its disk space", async () => {
  const { bench, figures, ratios } = await runBench("flood.ts", ["--short"]);
  expect(bench).toBe("flood");
  const { store, relay } = figures as {
    store: Record<"accepted" | "expired" | "purged" | "released", Steps> & {
      bodyBytes: number;
      bytesPerEvent: Record<string, { file: number; used: number }>;
    };
    relay: Record<string, { perSecond: { median: number } }>;
  };
  for (const part of ["accepted", "expired", "purged", "released"] as const) expect(store[part].perSecond, part).toBeGreaterThan(0);
  const { parked, ignored, afterRetention, secondFlood } = store.bytesPerEvent;
  // No less than the body itself, or something was not kept.
  expect(parked?.used).toBeGreaterThan(store.bodyBytes);
  expect(parked?.used).toBeLessThan(3 * store.bodyBytes);
  expect(ignored?.file).toBeLessThan(1.05 * (parked?.file as number));
  // One event stays, and 4 MiB of pages for the next ones.
  expect(afterRetention?.used).toBeLessThan(2);
  expect(afterRetention?.file).toBeLessThan(250);
  expect(secondFlood?.file).toBeLessThan(1.05 * (parked?.file as number));
  expect(Object.keys(relay)).toEqual(["quiet", "flood", "after"]);
  expect(ratios["flood/quiet"]).toMatchObject({ median: expect.any(Number) });
});
