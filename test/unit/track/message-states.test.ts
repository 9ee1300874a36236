import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isStatus, messageStatuses, statusesOf } from "../../../src/model/statuses.ts";
import {
  type MessageState,
  type Observation,
  stepMessage,
  unobserved,
} from "../../../src/model/tracking.ts";

const statuses = statusesOf(messageStatuses);
const outbound = statuses
  .filter((status) => messageStatuses[status].direction === "outbound")
  .sort((a, b) => messageStatuses[a].rank - messageStatuses[b].rank);
/** 0: none yet. */
const height = (status: string | null) =>
  isStatus(messageStatuses, status) ? outbound.indexOf(status) + 1 : 0;
const isInbound = (status: string | null) =>
  isStatus(messageStatuses, status) && messageStatuses[status].direction === "inbound";
const carriesError = (status: string | null) =>
  isStatus(messageStatuses, status) && messageStatuses[status].error;

const at = fc.integer({ min: 0, max: 20 });
const word = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom(...statuses) },
  fc.constantFrom("Sent", "toString", "__proto__", ""),
  fc.string(),
);
const code = fc.option(fc.constantFrom("", "131026", "131047"));
const anySeen: fc.Arbitrary<Observation> = fc.record({ status: fc.option(word), error: code, at });
/** Events of an outbound message, with one error code at most. */
const agreeing: fc.Arbitrary<Observation> = fc.record({
  status: fc.constantFrom(...outbound),
  error: fc.option(fc.constant("131026")),
  at,
});

function apply(events: readonly Observation[], from: MessageState = unobserved): MessageState {
  return events.reduce((state, seen) => stepMessage(state, seen).state, from);
}

const shuffled = (events: fc.Arbitrary<Observation>) =>
  fc
    .array(events, { maxLength: 12 })
    .chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
    );

describe("examples", () => {
  test("the statuses of the service's document rank in its order, and failed between sent and delivered", () => {
    const documented = ["pending", "sent", "failed", "delivered", "read"];
    expect(outbound.filter((status) => documented.includes(status))).toEqual(documented);
    expect(isInbound("received")).toBe(true);
  });

  test("delivered on a second device after a failure on the first", () => {
    const state = apply([
      { status: "sent", error: null, at: 1 },
      { status: "failed", error: "131026", at: 2 },
      { status: "delivered", error: null, at: 3 },
    ]);
    expect(state).toEqual({
      status: "delivered",
      error: "131026",
      times: { sent: 1, failed: 2, delivered: 3 },
    });
  });

  test("a repeated bare failed keeps the code and the very object; one with another code replaces it, without a transition", () => {
    const failed = apply([{ status: "failed", error: "131026", at: 5 }]);
    for (const bare of [null, ""]) {
      const again = stepMessage(failed, { status: "failed", error: bare, at: 6 });
      expect(again).toEqual({ state: failed, transition: null });
      expect(again.state).toBe(failed);
    }
    const other = stepMessage(failed, { status: "failed", error: "131047", at: 6 });
    expect(other.transition).toBeNull();
    expect(other.state.error).toBe("131047");
  });

  test("the earlier createdAt of two is kept, whichever came first", () => {
    const early = { status: "read", error: null, at: 3 };
    const late = { status: "read", error: null, at: 9 };
    expect(apply([late, early]).times).toEqual({ read: 3 });
    expect(apply([early, late]).times).toEqual({ read: 3 });
  });
});

describe("for any events", () => {
  test("a status never stands lower than before, and a transition says exactly what changed", () => {
    fc.assert(
      fc.property(fc.array(anySeen), (events) => {
        let state: MessageState = unobserved;
        for (const seen of events) {
          const step = stepMessage(Object.freeze(state), seen);
          if (isInbound(state.status)) expect(step.state.status).toBe(state.status);
          else if (isInbound(step.state.status)) expect(state.status).toBeNull();
          else expect(height(step.state.status)).toBeGreaterThanOrEqual(height(state.status));
          expect(step.transition).toEqual(
            state.status === step.state.status
              ? null
              : { from: state.status, to: step.state.status },
          );
          state = step.state;
        }
      }),
    );
  });

  test("a second time changes nothing: the very same object", () => {
    fc.assert(
      fc.property(fc.array(anySeen), anySeen, (events, seen) => {
        const once = stepMessage(apply(events), seen).state;
        const twice = stepMessage(once, seen);
        expect(twice.state).toBe(once);
        expect(twice.transition).toBeNull();
      }),
    );
  });

  test("another object comes back only when something differs", () => {
    fc.assert(
      fc.property(fc.array(anySeen), anySeen, (events, seen) => {
        const before = apply(events);
        const { state } = stepMessage(before, seen);
        if (state !== before) expect(state).not.toEqual(before);
      }),
    );
  });

  test("an error code is never erased: it is the last that a failed carried", () => {
    fc.assert(
      fc.property(fc.array(anySeen), (events) => {
        const last = events.findLast(
          (seen) => carriesError(seen.status) && seen.error !== null && seen.error !== "",
        );
        expect(apply(events).error).toBe(last?.error ?? null);
      }),
    );
  });

  test("times are the smallest of each known status, in any order, and of nothing else", () => {
    fc.assert(
      fc.property(fc.array(anySeen), (events) => {
        const smallest: Record<string, number> = {};
        for (const { status, at } of events) {
          if (isStatus(messageStatuses, status))
            smallest[status] = Math.min(at, smallest[status] ?? at);
        }
        expect(apply(events).times).toEqual(smallest);
      }),
    );
  });

  test("unknown words leave the very same object", () => {
    fc.assert(
      fc.property(fc.array(anySeen), fc.option(fc.string()), (events, unknown) => {
        fc.pre(unknown === null || !isStatus(messageStatuses, unknown));
        const before = apply(events);
        expect(stepMessage(before, { status: unknown, error: "131026", at: 0 }).state).toBe(before);
      }),
    );
  });

  test("the first known word decides for inbound or outbound", () => {
    fc.assert(
      fc.property(fc.array(anySeen), (events) => {
        const first = events.find((seen) => isStatus(messageStatuses, seen.status));
        expect(isInbound(apply(events).status)).toBe(isInbound(first?.status ?? null));
      }),
    );
  });
});

describe("for an outbound message with one error code at most", () => {
  test("the order of arrival does not matter: the status is the highest", () => {
    fc.assert(
      fc.property(shuffled(agreeing), ([events, other]) => {
        const state = apply(events);
        expect(apply(other)).toEqual(state);
        expect(height(state.status)).toBe(
          Math.max(0, ...events.map((seen) => height(seen.status))),
        );
      }),
    );
  });

  test("it has at most one transition per status, one after the other, and the last leads to the status", () => {
    fc.assert(
      fc.property(fc.array(agreeing), (events) => {
        let state: MessageState = unobserved;
        const path: (string | null)[] = [null];
        for (const seen of events) {
          const { state: next, transition } = stepMessage(state, seen);
          if (transition !== null) {
            expect(transition.from).toBe(path.at(-1));
            path.push(transition.to);
          }
          state = next;
        }
        expect(path.length).toBeLessThanOrEqual(1 + outbound.length);
        expect(path.at(-1)).toBe(state.status);
      }),
    );
  });
});
