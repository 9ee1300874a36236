import fc from "fast-check";
import { expect, test } from "vitest";
import type { Arrival } from "../../../src/sandbox/arrivals.ts";
import { findOrderViolations } from "../../../src/sandbox/order.ts";

const arrival = (eventId: string, wamid: string | null = "w1", attempt = 1, path = "/"): Arrival => ({
  number: 1,
  path,
  deliveryId: `dlv_${eventId}`,
  attempt,
  eventId,
  wamid,
  answered: 200,
  signature: "unchecked",
  body: null,
});
const place = (positions: Record<string, number>) => (id: string) => {
  const at = positions[id];
  return at === undefined ? undefined : { after: at, before: at };
};

test("an event that arrives after one accepted later is a violation, once per event", () => {
  const at = place({ a: 1, b: 2, c: 3 });
  expect(findOrderViolations([arrival("a"), arrival("b"), arrival("c")], at)).toEqual([]);
  expect(findOrderViolations([arrival("c"), arrival("a"), arrival("b")], at)).toEqual([
    { path: "/", wamid: "w1", early: "c", late: "a" },
    { path: "/", wamid: "w1", early: "c", late: "b" },
  ]);
});

test("attempts that come again, other messages and other paths prove nothing", () => {
  const at = place({ a: 1, b: 2 });
  expect(findOrderViolations([arrival("b"), arrival("a", "w1", 2)], at)).toEqual([]);
  expect(findOrderViolations([arrival("b", "w2"), arrival("a")], at)).toEqual([]);
  expect(findOrderViolations([arrival("b", "w1", 1, "/x"), arrival("a", "w1", 1, "/y")], at)).toEqual([]);
  expect(findOrderViolations([arrival("b"), arrival("unknown"), arrival("a", null)], at)).toEqual([]);
});

test("events posted side by side may come in either order; those posted one after the other may not", () => {
  const spans: Record<string, { after: number; before: number }> = {
    a: { after: 1, before: 5 },
    b: { after: 2, before: 6 },
    c: { after: 7, before: 8 },
  };
  const at = (id: string) => spans[id];
  expect(findOrderViolations([arrival("b"), arrival("a"), arrival("c")], at)).toEqual([]);
  expect(findOrderViolations([arrival("b"), arrival("c"), arrival("a")], at)).toEqual([{ path: "/", wamid: "w1", early: "c", late: "a" }]);
});

test("any arrangement but the accepted order is noticed", () => {
  const ids = ["a", "b", "c", "d", "e"];
  const at = place(Object.fromEntries(ids.map((id, index) => [id, index])));
  fc.assert(
    fc.property(fc.shuffledSubarray(ids, { minLength: 2 }), (arrived) => {
      const inOrder = arrived.join() === [...arrived].sort().join();
      expect(
        findOrderViolations(
          arrived.map((id) => arrival(id)),
          at,
        ).length === 0,
      ).toBe(inOrder);
    }),
  );
});
