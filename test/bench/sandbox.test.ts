// Slow: it measures the sandbox beside a relay.
import { expect, test } from "vitest";
import { runBench } from "./run-bench.ts";

interface Figures {
  readonly paced: { readonly sendsPerSecond: number; readonly p50: number; readonly p99: number; readonly eventsPerSecond: number };
  readonly unpaced: { readonly sendsPerSecond: number; readonly eventsPerSecond: number };
  readonly memory: { readonly bytesPerMessage: number };
}

// The bench itself fails when a send is not answered 201, or an event is not stored once.
test("sandbox measures sends and events beside the relay, and what a message costs in memory", async () => {
  const { bench, machine, figures, ratios } = await runBench("sandbox.ts", ["--short"]);
  expect(bench).toBe("sandbox");
  expect(machine.cores).toBeGreaterThan(0);
  const { paced, unpaced, memory } = figures as unknown as Figures;
  expect(paced.sendsPerSecond).toBe(500);
  expect(paced.p99).toBeGreaterThanOrEqual(paced.p50);
  expect(unpaced.sendsPerSecond).toBeGreaterThan(0);
  expect(unpaced.eventsPerSecond).toBeGreaterThan(0);
  expect(memory.bytesPerMessage).toBeGreaterThan(100);
  expect(Object.keys(ratios)).toEqual(["sends/500", "events/1500"]);
  expect(ratios["sends/500"]).toBe(1);
});
