// Slow: it measures several servers one after the other in one run.
import { expect, test } from "vitest";
import type { SideFigures } from "../../bench/ingest/summary.ts";
import { runBench } from "./run-bench.ts";

const sides = ["bare", "fastify", "fastify+bullmq", "relay", "relay+delivery"];

// The bench itself fails when anything but 200 is answered, when Redis or the relay's file holds another number of events than
// was acknowledged, or when one is not planned in the end. Machines that run tests are too noisy for the aims: no speed is asserted here.
test("ingest measures all sides in one run and finds every acknowledged event again", async () => {
  const { bench, figures, ratios } = await runBench("ingest.ts", ["--short"]);
  expect(bench).toBe("ingest");
  expect(Object.keys(figures)).toEqual(sides);
  for (const side of sides) {
    const { closed, open, acknowledged } = figures[side] as SideFigures;
    expect(closed.perSecond.median, side).toBeGreaterThan(0);
    expect(closed.p50.median, side).toBeGreaterThan(0);
    expect(closed.p99.median, side).toBeGreaterThanOrEqual(closed.p50.median);
    expect(open.max.median, side).toBeGreaterThanOrEqual(open.p99.median);
    expect(acknowledged, side).toBeGreaterThan(0);
  }
  expect(ratios).toMatchObject({
    "relay/bare": {},
    "relay/fastify": {},
    "relay/fastify+bullmq": {},
    "p99 relay/bare": {},
    "µs each relay/bare": {},
  });
  expect((ratios["relay/bare"] as { median: number }).median).toBeGreaterThan(0);
});

test("without keep-alive, each side is measured against itself with keep-alive", async () => {
  const { figures, ratios } = await runBench("ingest.ts", ["--short", "--only", "bare,relay", "--no-keep-alive"]);
  expect((figures["relay"] as SideFigures).noKeepAlive?.perSecond.median).toBeGreaterThan(0);
  expect((figures["bare"] as SideFigures).noKeepAlive?.perSecond.median).toBeGreaterThan(0);
  expect(ratios).toMatchObject({
    "no keep-alive/keep-alive bare": {},
    "no keep-alive/keep-alive relay": {},
    "no keep-alive relay/bare": {},
  });
});

test("sides can be left out, and a wrong flag is a usage error", async () => {
  const { figures, ratios } = await runBench("ingest.ts", ["--short", "--seconds", "0.2", "--only", "bare"]);
  expect(Object.keys(figures)).toEqual(["bare"]);
  expect(ratios).toEqual({});
  await expect(runBench("ingest.ts", ["--only", "nothing"])).rejects.toThrow("--only knows bare");
  await expect(runBench("ingest.ts", ["--seconds", "-1"])).rejects.toThrow();
});
