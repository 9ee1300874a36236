import fc from "fast-check";
import { expect, test } from "vitest";
import { envelopeSchema, isUsualEnvelope, parseEnvelope } from "../../../src/event/envelope.ts";

const usual = {
  id: "01998d3e-7c1a-7000-8000-00000000002a",
  event: "message.status",
  createdAt: "2026-11-21T12:34:56.789Z",
  data: { wamid: "wamid.x", status: "sent" },
};

test("the usual envelope needs no schema, and is the object parsed", () => {
  expect(isUsualEnvelope(usual)).toBe(true);
  expect(parseEnvelope(Buffer.from(JSON.stringify(usual)))).toEqual({ ok: true, envelope: usual });
});

test("what counts as usual is valid by the schema: never more is taken for speed", () => {
  const near = fc.record({
    id: fc.oneof(fc.uuid(), fc.constant(usual.id), fc.string()),
    event: fc.oneof(fc.constant("message.status"), fc.string()),
    createdAt: fc.oneof(
      fc.date({ noInvalidDate: true, min: new Date("1990-01-01"), max: new Date("2110-01-01") }).map((date) => date.toISOString()),
      fc.tuple(fc.nat(99), fc.nat(99), fc.nat(99), fc.nat(99)).map(([month, day, hour, minute]) => {
        const two = (number: number) => String(number).padStart(2, "0");
        return `20${two(month)}-${two(month)}-${two(day)}T${two(hour)}:${two(minute)}:00.000Z`;
      }),
      fc.string(),
    ),
    data: fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.jsonValue()),
  });
  fc.assert(
    fc.property(near, (value) => {
      if (isUsualEnvelope(value)) expect(envelopeSchema.safeParse(value).success).toBe(true);
    }),
    { numRuns: 5_000 },
  );
});

test("what is not usual is judged by the schema, with its words", () => {
  const with_ = (changes: object) => parseEnvelope(Buffer.from(JSON.stringify({ ...usual, ...changes })));
  expect(with_({ id: "any text" }).ok).toBe(true);
  expect(with_({ createdAt: "2026-02-29T00:00:00+00:00" })).toMatchObject({ ok: false, error: expect.stringContaining("createdAt") });
  expect(with_({ createdAt: "2028-02-29T00:00:00-03:00" }).ok).toBe(true);
  expect(with_({ data: [] })).toMatchObject({ ok: false, error: expect.stringContaining("data") });
  expect(with_({ id: 7 })).toMatchObject({ ok: false, error: expect.stringContaining("id") });
});
