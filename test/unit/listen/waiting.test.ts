import { expect, test } from "vitest";
import { startWatchdog, waitFor } from "../../../src/cli/listen/follow.ts";
import { createManualClock } from "../../harness/manual-clock.ts";

test("the watchdog speaks once, after as much silence as it was given, and not while nobody listens", async () => {
  const clock = createManualClock();
  let spoke = 0;
  const dog = startWatchdog(clock, 45_000, () => {
    spoke += 1;
  });
  await clock.advance(44_000);
  dog.heard();
  await clock.advance(44_000);
  expect(spoke).toBe(0);
  dog.rest();
  await clock.advance(600_000);
  expect(spoke).toBe(0);
  dog.heard();
  await clock.advance(45_000);
  expect(spoke).toBe(1);
  await clock.advance(600_000);
  expect(spoke).toBe(1);
  expect(clock.pending()).toBe(0);
});

test("a wait counts time, is cut short by its signal, and leaves nothing behind", async () => {
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
