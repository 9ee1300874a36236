import fc from "fast-check";
import { expect, test } from "vitest";
import { origins } from "../../../src/model/event.ts";
import { deliveryStates, dispositions } from "../../../src/model/states.ts";
import { packEventId, unpackEventId } from "../../../src/store/schema/codes.ts";

test("an event id survives packing, and no two ids pack alike", () => {
  const ids = fc.oneof(
    fc.uuid(),
    fc.uuid().map((id) => id.toUpperCase()),
    fc
      .string({ minLength: 1, maxLength: 40, unit: "binary" })
      .filter((text) => text.isWellFormed()),
    // As long as the bytes of a UUID.
    fc.string({ minLength: 15, maxLength: 16 }),
  );
  fc.assert(
    fc.property(ids, ids, (one, other) => {
      const [a, b] = [packEventId(one), packEventId(other)];
      expect(unpackEventId(a.toString("hex"))).toBe(one);
      expect(a.equals(b)).toBe(one === other);
    }),
  );
});

test("the words that stand in files as numbers keep their places", () => {
  // A file written by this version holds these numbers for ever: a list may grow at its end only.
  expect(deliveryStates).toEqual(["waiting", "held", "delivered", "dead"]);
  expect(dispositions).toEqual([
    "routed",
    "filtered",
    "ignored",
    "quarantined",
    "parked",
    "released",
    "unassigned",
  ]);
  expect(origins).toEqual(["webhook", "hydrate", "reconcile"]);
});
