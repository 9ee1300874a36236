import { expect, test, vi } from "vitest";
import { createMetrics } from "../../../src/observe/metrics.ts";

test("relays of one process share Node's metrics, whose timers never end", async () => {
  const build = { version: "1", node: "1", storage: "sqlite" } as const;
  createMetrics(build);
  const intervals = vi.spyOn(globalThis, "setInterval");
  const metrics = createMetrics(build);
  expect(intervals).not.toHaveBeenCalled();
  const gauges = {
    attention: [],
    sources: [],
    routes: [],
    accounts: new Map(),
    listeners: [],
    requestsInFlight: 0,
    storing: true,
    now: 0,
  };
  const text = await metrics.text(gauges);
  expect(text).toContain("\nnodejs_eventloop_lag_p99_seconds ");
  expect(text).toContain("\nprocess_resident_memory_bytes ");
});
