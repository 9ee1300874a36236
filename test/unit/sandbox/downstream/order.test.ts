import fc from "fast-check";
import { expect, test } from "vitest";
import { type AcceptedAt, type Arrival, findOrderViolations } from "../../../../src/sandbox/downstream/arrivals.ts";

interface Arrives {
  id: string;
  wamid?: string | null;
  path?: string;
  answered?: number | null;
}

/** Arrivals in the order given, by default taken and all of one message. */
const arrivals = (...list: (string | Arrives)[]): Arrival[] =>
  list.map((one, index) => {
    const { id, wamid = "w1", path = "/", answered = 200 } = typeof one === "string" ? { id: one } : one;
    return {
      number: index + 1,
      path,
      deliveryId: `dlv_${id}${path}`,
      attempt: 1,
      eventId: id,
      wamid,
      answered,
      signature: "unchecked",
      body: null,
    };
  });
const spans: Record<string, AcceptedAt> = Object.fromEntries(["a", "b", "c", "d", "e"].map((id, at) => [id, { after: at, before: at }]));
const at = (id: string) => spans[id];
const found = (list: (string | Arrives)[], acceptedAt = at) =>
  findOrderViolations(arrivals(...list), acceptedAt).map(({ early, late }) => `${early} before ${late}`);

test("an event that arrives after one accepted later is a violation, once per event", () => {
  expect(found(["a", "b", "c"])).toEqual([]);
  expect(found(["c", "a", "b"])).toEqual(["c before a", "c before b"]);
  expect(findOrderViolations(arrivals("b", "a"), at)).toEqual([{ path: "/", wamid: "w1", early: "b", late: "a" }]);
});

test("one that arrives while an earlier one has only failed is a violation", () => {
  expect(found([{ id: "a", answered: 503 }, { id: "a", answered: null }, "a", "b"])).toEqual([]);
  expect(found([{ id: "a", answered: 503 }, "b", "a"])).toEqual(["b before a"]);
  expect(found([{ id: "a", answered: null }, { id: "b", answered: 503 }, "a", "b"])).toEqual(["b before a"]);
});

test("one that was never taken holds back only what came before its own first try", () => {
  expect(found([{ id: "a", answered: 500 }, "b"])).toEqual([]);
  expect(found(["b", { id: "a", answered: 500 }])).toEqual(["b before a"]);
});

test("arrivals once more after it was taken, other messages, other paths and unknown events prove nothing", () => {
  expect(found(["a", "b", "a", "c", "a"])).toEqual([]);
  expect(found([{ id: "b", wamid: "w2" }, "a"])).toEqual([]);
  expect(
    found([
      { id: "b", path: "/x" },
      { id: "a", path: "/y" },
    ]),
  ).toEqual([]);
  expect(found(["b", "unknown", { id: "a", wamid: null }])).toEqual([]);
});

test("events posted side by side may come in either order; those posted one after the other may not", () => {
  const sideBySide: Record<string, AcceptedAt> = { a: { after: 1, before: 5 }, b: { after: 2, before: 6 }, c: { after: 7, before: 8 } };
  const acceptedAt = (id: string) => sideBySide[id];
  expect(found(["b", "a", "c"], acceptedAt)).toEqual([]);
  expect(found(["b", "c", "a"], acceptedAt)).toEqual(["c before a"]);
});

test("says the same as a plain reading of the rule", () => {
  const tries = fc.array(fc.record({ id: fc.constantFrom("a", "b", "c", "d", "e"), answered: fc.constantFrom(200, 503, null) }), {
    maxLength: 15,
  });
  fc.assert(
    fc.property(tries, (list) => {
      const first = (id: string) => list.findIndex((one) => one.id === id);
      const end = (id: string) =>
        Math.max(
          list.findIndex((one) => one.id === id && one.answered === 200),
          first(id),
        );
      const ids = [...new Set(list.map(({ id }) => id))];
      const late = ids.filter((id) => ids.some((other) => other > id && first(other) < end(id)));
      expect(
        findOrderViolations(arrivals(...list), at)
          .map((violation) => violation.late)
          .sort(),
      ).toEqual(late.sort());
    }),
    { numRuns: 1000 },
  );
});
