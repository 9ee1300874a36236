import fc from "fast-check";
import { expect, test } from "vitest";
import type { EventId } from "../../../../src/model/ids.ts";
import {
  eventBody,
  mostDataBytes,
  truncatedBody,
} from "../../../../src/sandbox/events/publisher.ts";

const envelope = {
  id: "0198-1" as EventId,
  event: "message.status",
  createdAt: "2026-11-21T12:00:00.000Z",
};
/** Data of exactly so many bytes as JSON, made of characters of `unit`'s width. */
const dataOf = (bytes: number, unit: string) => {
  const frame = '{"note":""}'.length;
  const count = Math.floor((bytes - frame) / Buffer.byteLength(unit));
  return { note: unit.repeat(count) + "x".repeat(bytes - frame - count * Buffer.byteLength(unit)) };
};

test("256 KB are 262,144 bytes", () => expect(mostDataBytes).toBe(262_144));

test.each(["a", "ñ", "€", "😀"])(
  "data of exactly 256 KB arrives whole, one byte more truncated: made of %s",
  (unit) => {
    const whole = dataOf(mostDataBytes, unit);
    expect(Buffer.byteLength(JSON.stringify(whole))).toBe(mostDataBytes);
    expect(JSON.parse(eventBody(envelope, whole))).toEqual({ ...envelope, data: whole });
    expect(JSON.parse(eventBody(envelope, dataOf(mostDataBytes + 1, unit)))).toEqual({
      ...envelope,
      data: { truncated: true, id: null, size: mostDataBytes + 1 },
    });
  },
);

test("the body is the envelope as JSON.stringify writes it", () => {
  fc.assert(
    fc.property(fc.string(), fc.dictionary(fc.string(), fc.jsonValue()), (event, data) => {
      expect(eventBody({ ...envelope, event }, data)).toBe(
        JSON.stringify({ ...envelope, event, data }),
      );
    }),
  );
});

test("a body truncated by a fault keeps its envelope and says the size of its data; one truncated already stays", () => {
  const truncated = truncatedBody(eventBody(envelope, { note: "€" }));
  expect(JSON.parse(truncated.toString("utf8"))).toEqual({
    ...envelope,
    data: { truncated: true, id: null, size: 14 },
  });
  expect(truncatedBody(truncated.toString("utf8"))).toEqual(truncated);
});
