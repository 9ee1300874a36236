import { describe, expect, test } from "vitest";
import type { RoutedEvent } from "../../../src/model/states.ts";
import type { Tracking } from "../../../src/model/tracking.ts";
import { createPlanner } from "../../../src/route/plan.ts";
import type { UnknownPolicy } from "../../../src/route/settings.ts";
import { anEvent, anUnknown, aRoute, aTracking, noSubject } from "./an-event.ts";

/** `deliver`, `park`, or the reason of a skip. */
function verdict(
  match: unknown,
  event: RoutedEvent,
  tracking: Tracking,
  unknown: UnknownPolicy = "park",
  emit = "events",
): string {
  const [only] = createPlanner([aRoute({ match, emit })], unknown)(event, tracking).verdicts;
  if (only === undefined) throw new Error("no verdict");
  return only.verdict === "skip" ? `skip: ${only.reason}` : only.verdict;
}

describe("each criterion, holding and not", () => {
  test.each<
    [match: unknown, event: Partial<RoutedEvent>, tracking: Partial<Tracking>, expected: string]
  >([
    [{}, {}, {}, "deliver"],
    [{ events: ["*"] }, { event: "never.heard.of" }, {}, "deliver"],
    [{ events: ["message.*", "automation.failed"] }, {}, {}, "deliver"],
    [{ events: ["message.*", "automation.failed"] }, { event: "automation.failed" }, {}, "deliver"],
    [
      { events: ["message.*", "automation.failed"] },
      { event: "automation.completed" },
      {},
      "skip: event",
    ],
    [{ statuses: ["failed", "odd"] }, {}, {}, "deliver"],
    [{ statuses: ["failed", "odd"] }, { status: "odd" }, {}, "deliver"],
    [{ statuses: ["failed"] }, { status: "sent" }, {}, "skip: status"],
    [{ statuses: ["failed"] }, { status: null }, {}, "skip: status"],
    // The event's own word, not what tracking holds the message to be.
    [{ statuses: ["sent"] }, { status: "sent" }, { status: "delivered" }, "deliver"],
    [{ statuses: ["delivered"] }, { status: "sent" }, { status: "delivered" }, "skip: status"],
    [{ sources: ["main"] }, {}, {}, "deliver"],
    [{ sources: ["ma*"] }, {}, {}, "skip: source"],
    [{ accounts: ["second", "main"] }, {}, {}, "deliver"],
    [{ accounts: ["second"] }, {}, {}, "skip: account"],
    [{ tracked: true }, {}, {}, "deliver"],
    [{ tracked: false }, {}, {}, "skip: tracked"],
    [{ tracked: false }, {}, { tracked: false }, "deliver"],
    [{ errorCodes: [131026] }, {}, {}, "deliver"],
    [{ errorCodes: ["131026"] }, {}, {}, "deliver"],
    [{ errorCodes: ["131047"] }, {}, {}, "skip: error code"],
    // A bare `failed` has no code, though the message has one from before.
    [{ errorCodes: ["131026"] }, { errorCode: null }, {}, "skip: error code"],
    [{ references: ["order-*"] }, {}, {}, "deliver"],
    [{ references: ["invoice-*"] }, {}, {}, "skip: reference"],
    [{ references: ["*"] }, {}, { reference: null }, "skip: reference"],
    [{ metadata: { team: "sales" } }, {}, {}, "deliver"],
    [{ metadata: { team: "support" } }, {}, {}, "skip: metadata: team $eq"],
    [
      { metadata: { team: { $exists: true } } },
      {},
      { metadata: null },
      "skip: metadata: team $exists",
    ],
    [{ metadata: { team: { $ne: "support" } } }, {}, { metadata: null }, "deliver"],
    [{ metadata: { $or: [{ team: "x" }] } }, {}, {}, "skip: metadata: $or"],
    [{ where: { amount: { $gt: 5 } } }, { data: { amount: 6 } }, {}, "deliver"],
    [{ where: { amount: { $gt: 5 } } }, { data: { amount: 5 } }, {}, "skip: where: amount $gt"],
    [{ where: { $not: { a: 1 } } }, { data: { a: 1 } }, {}, "skip: where: $not"],
    [{ where: {} }, {}, {}, "deliver"],
    [
      { where: { wamid: { $exists: true } } },
      { truncated: true, data: { truncated: true, id: null, size: 300_000 } },
      {},
      "skip: where: wamid $exists",
    ],
  ])("%j on %j, %j: %s", (match, event, tracking, expected) => {
    expect(verdict(match, anEvent(event), aTracking(tracking))).toBe(expected);
  });

  test("emit: transitions matches only events that moved a status", () => {
    expect(verdict({}, anEvent(), aTracking(), "park", "transitions")).toBe("deliver");
    expect(verdict({}, anEvent(), aTracking({ transition: null }), "park", "transitions")).toBe(
      "skip: no transition",
    );
    expect(verdict({}, anEvent(), noSubject, "park", "transitions")).toBe("skip: no transition");
    expect(verdict({}, anEvent(), aTracking({ transition: null }), "park", "events")).toBe(
      "deliver",
    );
  });
});

describe("the reason is that of the first criterion that fails", () => {
  // From the last to the first: each row adds a failing criterion before those that fail already.
  const failing: [unknown, string][] = [
    [{ where: { a: 1 } }, "where: a $eq"],
    [{ metadata: { team: "x" } }, "metadata: team $eq"],
    [{ references: ["x"] }, "reference"],
    [{ errorCodes: ["x"] }, "error code"],
    [{ tracked: false }, "tracked"],
    [{ accounts: ["x"] }, "account"],
    [{ sources: ["x"] }, "source"],
    [{ statuses: ["x"] }, "status"],
    [{ events: ["x"] }, "event"],
  ];

  test.each(failing.map(([, reason], index) => [reason, index] as const))("%s", (reason, index) => {
    const match = Object.assign({}, ...failing.slice(0, index + 1).map(([part]) => part));
    expect(verdict(match, anEvent(), aTracking({ transition: null }), "park", "transitions")).toBe(
      `skip: ${reason}`,
    );
  });
});

describe("a route with tracked: true, on a message nobody registered", () => {
  const match = { tracked: true, statuses: ["failed"] };

  test.each<[UnknownPolicy, string, string]>([
    ["park", "park", "parked"],
    ["ignore", "skip: untracked", "ignored"],
    ["forward", "deliver", "routed"],
  ])("%s: %s, and the event is %s", (unknown, expected, disposition) => {
    expect(verdict(match, anEvent(), anUnknown(), unknown)).toBe(expected);
    expect(createPlanner([aRoute({ match })], unknown)(anEvent(), anUnknown()).disposition).toBe(
      disposition,
    );
    expect(verdict(match, anEvent(), aTracking(), unknown)).toBe("deliver");
  });

  test.each<UnknownPolicy>(["park", "ignore", "forward"])(
    "%s: what would fail all the same is skipped for that, and filtered",
    (unknown) => {
      const delivered = anEvent({ status: "delivered" });
      expect(verdict(match, delivered, anUnknown(), unknown)).toBe("skip: status");
      expect(createPlanner([aRoute({ match })], unknown)(delivered, anUnknown()).disposition).toBe(
        "filtered",
      );
      expect(verdict({ tracked: true, errorCodes: ["x"] }, anEvent(), anUnknown(), unknown)).toBe(
        "skip: error code",
      );
      expect(verdict({ tracked: true, where: { a: 1 } }, anEvent(), anUnknown(), unknown)).toBe(
        "skip: where: a $eq",
      );
      expect(
        verdict(
          { tracked: true },
          anEvent(),
          anUnknown({ transition: null }),
          unknown,
          "transitions",
        ),
      ).toBe("skip: no transition");
    },
  );

  test("checks reference and metadata only after registration, and parks before it", () => {
    const wanting = { tracked: true, references: ["order-*"], metadata: { team: "sales" } };
    expect(verdict(wanting, anEvent(), anUnknown())).toBe("park");
    expect(verdict(wanting, anEvent(), anUnknown(), "ignore")).toBe("skip: untracked");
    expect(verdict(wanting, anEvent(), anUnknown(), "forward")).toBe("skip: reference");
    expect(verdict(wanting, anEvent(), aTracking())).toBe("deliver");
    expect(verdict(wanting, anEvent(), aTracking({ reference: "invoice-1" }))).toBe(
      "skip: reference",
    );
    expect(verdict(wanting, anEvent(), aTracking({ metadata: null }))).toBe(
      "skip: metadata: team $eq",
    );
  });

  test("parks nothing without tracked: true", () => {
    expect(verdict({ references: ["*"] }, anEvent(), anUnknown())).toBe("skip: reference");
    expect(verdict({}, anEvent(), anUnknown())).toBe("deliver");
    expect(verdict({ tracked: false }, anEvent(), anUnknown())).toBe("deliver");
  });

  test.each<UnknownPolicy>(["park", "ignore", "forward"])(
    "%s: events about neither message nor run are skipped",
    (unknown) => {
      expect(verdict({ tracked: true }, anEvent(), noSubject, unknown)).toBe("skip: untracked");
      expect(
        createPlanner([aRoute({ match: { tracked: true } })], unknown)(anEvent(), noSubject)
          .disposition,
      ).toBe("filtered");
      expect(verdict({ tracked: true }, anEvent(), aTracking({ subject: "run" }), unknown)).toBe(
        "deliver",
      );
    },
  );

  test.each<[UnknownPolicy, string]>([
    ["park", "park"],
    ["ignore", "skip: untracked"],
    ["forward", "deliver"],
  ])("%s: a run that nobody has registered yet is as a message", (unknown, expected) => {
    for (const subject of ["message", "run"] as const) {
      expect(verdict({ tracked: true }, anEvent(), anUnknown({ subject }), unknown)).toBe(expected);
    }
  });
});

describe("disposition of an event on several routes", () => {
  const all = aRoute({ name: "all" });
  const tracked = aRoute({ name: "tracked", match: { tracked: true } });
  const none = aRoute({ name: "none", match: { events: ["x"] } });

  test.each([
    ["one delivers, one would park", [tracked, all], "park", "routed"],
    ["one parks, one skips", [none, tracked], "park", "parked"],
    ["one waits in vain, one skips", [none, tracked], "ignore", "ignored"],
    ["all skip", [none], "park", "filtered"],
    ["no routes", [], "park", "filtered"],
  ] as const)("%s: %s", (_, routes, unknown, expected) => {
    const plan = createPlanner(routes, unknown)(anEvent(), anUnknown());
    expect(plan.disposition).toBe(expected);
    expect(plan.verdicts.map((each) => each.route)).toEqual(routes.map((route) => route.name));
  });
});
