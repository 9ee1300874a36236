import { expect, onTestFinished, test } from "vitest";
import { createSupervisor } from "../../../src/app/supervise.ts";
import { StoreUnavailable } from "../../../src/store/port.ts";
import { createManualClock, settled } from "../../harness/manual-clock.ts";

/** A task that takes no time, at 0 and every second, until `fail` or `hold`. */
function open() {
  const clock = createManualClock();
  const startedAt = clock.now();
  const logged: string[] = [];
  const runs: number[] = [];
  let error: Error | null = null;
  let held: PromiseWithResolvers<void> | null = null;
  let signal: AbortSignal | undefined;
  const supervisor = createSupervisor({
    clock,
    log: { error: (_: object, text: string) => logged.push(text) } as never,
  });
  onTestFinished(supervisor.close);
  const task = supervisor.supervise({
    name: "counting",
    firstMs: 0,
    async run(given) {
      signal = given;
      runs.push(clock.now() - startedAt);
      await held?.promise;
      if (error !== null) throw error;
      return 1_000;
    },
  });
  return {
    clock,
    logged,
    runs,
    supervisor,
    task,
    signal: () => signal,
    fail(next: Error | null) {
      error = next;
    },
    hold() {
      held = Promise.withResolvers();
    },
    release() {
      held?.resolve();
      held = null;
    },
  };
}

test("a task runs after the wait that its last step returned", async () => {
  const { clock, runs } = open();
  await clock.advance(2_500);
  expect(runs).toEqual([0, 1_000, 2_000]);
});

test("a failing task backs off up to ten seconds, and is logged once until it succeeds", async () => {
  const { clock, runs, logged, fail } = open();
  await settled();
  fail(new Error("broken"));
  await clock.advance(40_000);
  expect(runs).toEqual([0, 1_000, 1_500, 2_500, 4_500, 8_500, 16_500, 26_500, 36_500]);
  expect(logged).toEqual(["counting failed; it will be tried again"]);
  fail(null);
  await clock.advance(10_000);
  fail(new Error("broken again"));
  await clock.advance(1_000);
  expect(logged).toHaveLength(2);
});

test("an unavailable store is retried and not logged", async () => {
  const { clock, runs, logged, fail } = open();
  fail(new StoreUnavailable("away"));
  await clock.advance(40_000);
  expect(runs.length).toBeGreaterThan(5);
  expect(logged).toEqual([]);
});

test("retry runs a task that failed at once, and leaves the others to their time", async () => {
  const { clock, runs, fail, supervisor } = open();
  await settled();
  supervisor.retry();
  await settled();
  expect(runs).toEqual([0]);
  fail(new Error("broken"));
  await clock.advance(30_000);
  runs.length = 0;
  fail(null);
  supervisor.retry();
  await clock.advance(1_000);
  expect(runs).toEqual([30_000, 31_000]);
});

test("woken during a step, a task runs once more after it, and never twice at a time", async () => {
  const { runs, task, hold, release } = open();
  await settled();
  hold();
  task.wake();
  task.wake();
  task.wake();
  await settled();
  expect(runs).toHaveLength(2);
  release();
  await settled();
  expect(runs).toHaveLength(3);
});

test("close aborts the signal, waits for the step in progress, and starts no other", async () => {
  const { clock, runs, task, supervisor, hold, release, signal } = open();
  await settled();
  hold();
  await clock.advance(1_000);
  expect(runs).toHaveLength(2);
  let isClosed = false;
  const closing = supervisor.close().then(() => {
    isClosed = true;
  });
  await settled();
  expect([isClosed, signal()?.aborted]).toEqual([false, true]);
  release();
  await closing;
  task.wake();
  supervisor.retry();
  await clock.advance(60_000);
  expect(runs).toHaveLength(2);
  expect(clock.pending()).toBe(0);
});
