// Slow: it builds a file of events and backs it up while a relay receives.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

// The bench itself fails when a backup fails, or an event is not acknowledged.
test("backup measures a relay that receives, with and without scheduled backups", async () => {
  const { bench, figures, ratios } = await runBench("backup.ts", ["--short"]);
  expect(bench).toBe("backup");
  expect(figures).toMatchObject({ file: { events: 50_000 }, backupSeconds: { median: expect.any(Number) } });
  expect(ratios["p99 at 500/s backup/quiet"]).toMatchObject({ median: expect.any(Number) });
});
