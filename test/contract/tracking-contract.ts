import fc from "fast-check";
import { expect, test } from "vitest";
import { type MessageState, stepMessage, unobserved } from "../../src/model/tracking.ts";
import { soakSize } from "../harness/soak.ts";
import type { OpenSubject } from "./contract-store.ts";
import { accept, openWith } from "./contract-tools.ts";
import { rulesFor, start } from "./store-events.ts";

const words = [
  "pending",
  "sent",
  "delivered",
  "read",
  "failed",
  "received",
  "Sent",
  "blue",
  null,
] as const;

export function trackingContract(open: OpenSubject): void {
  test("any order of statuses leaves a message in the state machine's state, across restarts", async () => {
    const seen = fc.record({
      status: fc.constantFrom(...words),
      errorCode: fc.constantFrom(null, "131026", "x"),
      at: fc.integer({ min: start, max: start + 5 }),
    });
    await fc.assert(
      fc.asyncProperty(
        fc.array(seen, { minLength: 1, maxLength: 12 }),
        fc.integer({ min: 0, max: 12 }),
        async (events, restartAt) => {
          const subject = await open(rulesFor([{ name: "moves", emit: "transitions" }]));
          let { store } = subject;
          let state: MessageState = unobserved;
          for (const [n, { status, errorCode, at }] of events.entries()) {
            if (n === restartAt) store = await subject.reopen();
            const before = state;
            const step = stepMessage(before, { status, error: errorCode, at });
            state = step.state;
            const seq = await accept(store, { wamid: "w", status, errorCode, at });
            expect(await store.event(seq)).toMatchObject({
              previousStatus: before.status,
              transition: step.transition !== null,
            });
            expect((await store.delivery(seq, "moves")) !== null).toBe(step.transition !== null);
          }
          expect(await store.message("main", "w")).toMatchObject({
            status: state.status,
            errorCode: state.error,
          });
          expect((await store.message("main", "w"))?.times).toEqual(state.times);
          await subject.end();
        },
      ),
      { numRuns: soakSize(12, 25) },
    );
  });

  test("the same wamid in two accounts is two messages, and case matters", async () => {
    const { store } = await openWith(open, [{ name: "all" }]);
    await accept(store, { wamid: "w", status: "read" });
    await accept(store, { wamid: "W", status: "failed" });
    await accept(store, { wamid: "w", status: "sent", account: "other" });
    expect((await store.message("main", "w"))?.status).toBe("read");
    expect((await store.message("main", "W"))?.status).toBe("failed");
    expect((await store.message("other", "w"))?.status).toBe("sent");
  });
}
