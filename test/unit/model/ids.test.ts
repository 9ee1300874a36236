import fc from "fast-check";
import { expect, test } from "vitest";
import {
  deliveryId,
  type EventId,
  isCanonicalUuid,
  parseDeliveryId,
  routeTag,
  uuidv7,
} from "../../../src/model/ids.ts";

test("parses event id and route tag from a delivery id, for any text", () => {
  fc.assert(
    fc.property(
      fc.oneof(fc.uuid(), fc.string({ minLength: 1, unit: "grapheme" })),
      fc.string(),
      (event, route) => {
        const id = deliveryId("main", event as EventId, route);
        expect(id).toMatch(/^[\x21-\x7e]+$/);
        expect(parseDeliveryId(id)).toEqual({ eventId: event, routeTag: routeTag("main", route) });
      },
    ),
  );
});

test("never changes the delivery id of an event and route, by which destinations dedupe", () => {
  const id = deliveryId(
    "main",
    "01998d3e-7c1a-7000-8000-00000000002a" as EventId,
    "failures-to-crm",
  );
  expect(id).toBe("dlv_01998d3e7c1a7000800000000000002a_3c7a1014837c");
});

test("treats upper-case UUIDs as different ids", () => {
  const lower = "01998d3e-7c1a-7000-8000-00000000002a";
  expect(deliveryId("main", lower as EventId, "r")).not.toBe(
    deliveryId("main", lower.toUpperCase() as EventId, "r"),
  );
});

test("makes canonical UUIDs that grow with time", () => {
  const ids = [1, 2, 1_000, 1_800_000_000_000].map((now) => uuidv7(now));
  expect(ids).toEqual([...ids].sort());
  for (const id of ids) expect(isCanonicalUuid(id)).toBe(true);
});
