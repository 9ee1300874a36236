import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { RunStatus } from "../../../src/model/statuses.ts";
import {
  type Observation,
  type RunState,
  stepRun,
  unobserved,
} from "../../../src/model/tracking.ts";

const seenOf = (...words: (RunStatus | null)[]): fc.Arbitrary<Observation> =>
  fc.record({
    status: fc.constantFrom(...words),
    error: fc.option(fc.constantFrom("", "no account on the network")),
    at: fc.integer({ min: 0, max: 20 }),
  });
const any = seenOf("started", "completed", "failed", null);

function apply(events: readonly Observation[], from: RunState = unobserved): RunState {
  return events.reduce((state, seen) => stepRun(state, seen).state, from);
}

describe("examples", () => {
  test("started, then failed", () => {
    const started = stepRun(unobserved, { status: "started", error: null, at: 1 });
    expect(started.transition).toEqual({ from: null, to: "started" });
    const failed = stepRun(started.state, { status: "failed", error: "template withdrawn", at: 2 });
    expect(failed.transition).toEqual({ from: "started", to: "failed" });
    expect(failed.state).toEqual({
      status: "failed",
      error: "template withdrawn",
      times: { started: 1, failed: 2 },
    });
  });

  test("the first end stays, and the other leaves its time and error", () => {
    const state = apply([
      { status: "completed", error: null, at: 5 },
      { status: "failed", error: "late", at: 6 },
    ]);
    expect(state).toEqual({
      status: "completed",
      error: "late",
      times: { completed: 5, failed: 6 },
    });
  });

  test("an error that comes with another word is not taken", () => {
    expect(apply([{ status: "completed", error: "none really", at: 1 }]).error).toBeNull();
  });

  test("a repeated bare failed does not erase the error", () => {
    const failed = apply([{ status: "failed", error: "why", at: 5 }]);
    expect(stepRun(failed, { status: "failed", error: null, at: 6 }).state).toBe(failed);
  });
});

describe("for any events", () => {
  test("an end is for ever, and a transition says exactly what changed", () => {
    fc.assert(
      fc.property(fc.array(any), (events) => {
        let state: RunState = unobserved;
        for (const seen of events) {
          const step = stepRun(Object.freeze(state), seen);
          if (state.status === "completed" || state.status === "failed")
            expect(step.state.status).toBe(state.status);
          if (state.status !== null) expect(step.state.status).not.toBeNull();
          expect(step.transition).toEqual(
            state.status === step.state.status
              ? null
              : { from: state.status, to: step.state.status },
          );
          state = step.state;
        }
        const firstEnd = events.find(
          (seen) => seen.status === "completed" || seen.status === "failed",
        );
        if (firstEnd !== undefined) expect(state.status).toBe(firstEnd.status);
      }),
    );
  });

  test("a second time changes nothing: the very same object", () => {
    fc.assert(
      fc.property(fc.array(any), any, (events, seen) => {
        const once = stepRun(apply(events), seen).state;
        expect(stepRun(once, seen)).toEqual({ state: once, transition: null });
        expect(stepRun(once, seen).state).toBe(once);
      }),
    );
  });

  test("no word leaves the very same object", () => {
    const state = apply([{ status: "started", error: null, at: 1 }]);
    expect(stepRun(state, { status: null, error: "ignored", at: 0 }).state).toBe(state);
  });

  test.each(["completed", "failed"] as const)(
    "with %s as the only kind of end, order does not matter",
    (end) => {
      const lists = fc.array(seenOf("started", end, null), { maxLength: 10 });
      fc.assert(
        fc.property(
          lists.chain((list) =>
            fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
          ),
          ([events, other]) => {
            expect(apply(other)).toEqual(apply(events));
          },
        ),
      );
    },
  );
});
