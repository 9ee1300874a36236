import fc from "fast-check";
import { expect, test } from "vitest";
import type { DeliveryPlan, RouteVerdict } from "../../../src/model/states.ts";
import { createPlanCache, createPlanner } from "../../../src/route/plan.ts";
import { anEvent, anUnknown, aRoute, aTracking, noSubject } from "./an-event.ts";

const routes = [
  aRoute({
    name: "failures",
    match: { events: ["message.*"], statuses: ["failed"], tracked: true },
    emit: "transitions",
  }),
  aRoute({ name: "big", match: { where: { amount: { $gt: 10 } }, errorCodes: ["1"] } }),
  aRoute({ name: "orders", match: { tracked: true, references: ["order-*"] } }),
];

const event = fc
  .record({
    event: fc.constantFrom("message.status", "automation.failed"),
    status: fc.constantFrom("failed", "sent", null),
    errorCode: fc.constantFrom("1", null),
    data: fc.record(
      { amount: fc.constantFrom<(number | string)[]>(5, 50, "50") },
      { requiredKeys: [] },
    ),
  })
  .map(anEvent);
const tracking = fc
  .tuple(
    fc.constantFrom(aTracking(), aTracking({ reference: "x" }), anUnknown(), noSubject),
    fc.boolean(),
  )
  .map(([known, moved]) => (moved ? known : { ...known, transition: null }));

test("returns one object for equal plans, equal to the plans of a fresh planner", () => {
  const planner = createPlanner(routes, "park");
  const seen = new Map<string, DeliveryPlan>();
  fc.assert(
    fc.property(event, tracking, (anyEvent, anyTracking) => {
      const plan = planner(anyEvent, anyTracking);
      const text = JSON.stringify(plan);
      expect(seen.get(text) ?? plan).toBe(plan);
      seen.set(text, plan);
      const alone = routes.flatMap(
        (route) => createPlanner([route], "park")(anyEvent, anyTracking).verdicts,
      );
      expect(plan.verdicts).toEqual(alone);
    }),
    { numRuns: 200 },
  );
  expect(seen.size).toBeGreaterThan(8);
});

test("keeps the verdicts of two routes with the same reasons separate", () => {
  const planner = createPlanner(
    [
      aRoute({ name: "a", match: { events: ["x"] } }),
      aRoute({ name: "b", match: { events: ["x"] } }),
    ],
    "park",
  );
  expect(planner(anEvent(), aTracking()).verdicts).toEqual([
    { route: "a", verdict: "skip", reason: "event" },
    { route: "b", verdict: "skip", reason: "event" },
  ]);
});

test("freezes plans", () => {
  const plan = createPlanner(routes, "park")(anEvent(), aTracking());
  expect(Object.isFrozen(plan)).toBe(true);
  expect(Object.isFrozen(plan.verdicts)).toBe(true);
  expect(plan.verdicts.every((verdict) => Object.isFrozen(verdict))).toBe(true);
});

test("keeps plans right when the bounded cache is emptied", () => {
  let made = 0;
  const cache = createPlanCache((verdicts) => {
    made += 1;
    return { disposition: "filtered", verdicts: [...verdicts] };
  }, 10);
  const verdicts = Array.from(
    { length: 100 },
    (_, index): RouteVerdict => ({ route: "r", verdict: "skip", reason: `${index}` }),
  );
  const first = cache(verdicts.slice(0, 1));
  expect(cache(verdicts.slice(0, 1))).toBe(first);
  expect(made).toBe(1);
  for (const verdict of verdicts) expect(cache([verdict]).verdicts).toEqual([verdict]);
  expect(cache(verdicts.slice(0, 1))).toEqual(first);
  expect(cache(verdicts.slice(0, 1))).not.toBe(first);
});

test("plans data of any shape", () => {
  const planner = createPlanner(routes, "park");
  fc.assert(
    fc.property(fc.jsonValue(), (data) => {
      expect(planner(anEvent({ data }), aTracking()).verdicts).toHaveLength(3);
    }),
  );
});
