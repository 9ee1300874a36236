import { expect, test } from "vitest";
import { startWatchdog, waitFor } from "../../../src/cli/listen/follow.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

test("the watchdog fires once after its limit, and not while suspended", async () => {
  const clock = createManualClock();
  let fired = 0;
  const watchdog = startWatchdog(clock, 45_000, () => {
    fired += 1;
  });
  await clock.advance(44_000);
  watchdog.reset();
  await clock.advance(44_000);
  expect(fired).toBe(0);
  watchdog.suspend();
  await clock.advance(600_000);
  expect(fired).toBe(0);
  watchdog.reset();
  await clock.advance(45_000);
  expect(fired).toBe(1);
  await clock.advance(600_000);
  expect(fired).toBe(1);
  expect(clock.pending()).toBe(0);
});

test("a wait ends after its time or with its signal, and leaves no timer", async () => {
  const clock = createManualClock();
  let done = 0;
  void waitFor(clock, 2_500, new AbortController().signal).then(() => {
    done += 1;
  });
  await clock.advance(2_499);
  expect(done).toBe(0);
  await clock.advance(1);
  expect(done).toBe(1);
  const stop = new AbortController();
  void waitFor(clock, 60_000, stop.signal).then(() => {
    done += 1;
  });
  await clock.advance(1_000);
  stop.abort();
  await clock.advance(0);
  expect(done).toBe(2);
  expect(clock.pending()).toBe(0);
});
