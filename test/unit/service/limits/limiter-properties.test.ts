import fc from "fast-check";
import { expect, test } from "vitest";
import {
  type CallCap,
  type CallOperation,
  type CallOutcome,
  callOperations,
} from "../../../../src/service/endpoints.ts";
import { createLimiter } from "../../../../src/service/limits/limiter.ts";
import { mostInAWindow } from "../../../harness/budget-parties.ts";
import { createManualClock } from "../../../harness/manual-clock.ts";

const windowMs = 60_000;
const graceMs = 30_000;

interface Planned {
  /** After the call before. */
  readonly gap: number;
  readonly operation: CallOperation;
  /** From being let go to its end, as we see it. */
  readonly took: number;
  /**
   * Where between being let go and its end the service counts it; up to the end of the grace for a
   * lost one.
   */
  readonly counted: number;
  readonly fate: "answered" | "unknown" | "not-sent";
  /** Gives up when it has waited so long. */
  readonly patience: number | null;
}

const planned: fc.Arbitrary<Planned> = fc.record({
  gap: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 20_000 })),
  operation: fc.constantFrom("messages", ...callOperations),
  took: fc.oneof(fc.integer({ min: 0, max: 200 }), fc.integer({ min: 0, max: 90_000 })),
  // At the edges it would break first.
  counted: fc.oneof(fc.constantFrom(0, 1), fc.double({ min: 0, max: 1, noNaN: true })),
  fate: fc.constantFrom("answered", "answered", "unknown", "not-sent"),
  patience: fc.option(fc.integer({ min: 0, max: 100_000 }), { freq: 8 }),
});

const caps = fc.record({
  requests: fc.integer({ min: 1, max: 12 }),
  messages: fc.integer({ min: 1, max: 6 }),
});

test("no one-minute window at the service holds more calls than the caps, whatever the calls and their durations", async () => {
  await fc.assert(
    fc.asyncProperty(
      caps,
      fc.integer({ min: 2, max: 20 }),
      fc.array(planned, { maxLength: 50 }),
      async (limits, atOnce, calls) => {
        const clock = createManualClock();
        const limiter = createLimiter({ caps: limits, share: 1, clock, atOnce });
        const counted: Record<CallCap, number[]> = { requests: [], messages: [] };
        let open = 0;
        let underWay = 0;
        let mostUnderWay = 0;
        for (const call of calls) {
          await clock.advance(call.gap);
          const controller = new AbortController();
          const forget =
            call.patience === null
              ? () => {}
              : clock.after(call.patience, () => controller.abort());
          open += 1;
          limiter.enter({ operation: call.operation, signal: controller.signal }).then(
            (permit) => {
              forget();
              const at =
                clock.now() + call.counted * (call.took + (call.fate === "unknown" ? graceMs : 0));
              if (call.fate !== "not-sent") {
                counted.requests.push(at);
                if (call.operation === "messages") counted.messages.push(at);
              }
              const outcome: CallOutcome = { type: call.fate };
              underWay += 1;
              mostUnderWay = Math.max(mostUnderWay, underWay);
              clock.after(call.took, () => {
                underWay -= 1;
                permit.settle(outcome);
                open -= 1;
              });
            },
            () => {
              open -= 1;
            },
          );
        }
        // Everybody gets a turn, whatever came; then nothing is left, held or going on.
        for (let minutes = 0; open > 0 && minutes < 400; minutes += 5)
          await clock.advance(5 * 60_000);
        expect(open).toBe(0);
        expect(mostUnderWay).toBeLessThanOrEqual(atOnce);
        expect(mostInAWindow(counted.requests)).toBeLessThanOrEqual(limits.requests);
        expect(mostInAWindow(counted.messages)).toBeLessThanOrEqual(limits.messages);
        await clock.advance(windowMs + graceMs);
        expect(clock.pending()).toBe(0);
        expect(
          Object.values(limiter.state().caps).map(({ used, waiting }) => [used, waiting]),
        ).toEqual([
          [0, { send: 0, poll: 0 }],
          [0, { send: 0, poll: 0 }],
        ]);
      },
    ),
    { numRuns: 100 },
  );
});
