import fc from "fast-check";
import { expect, test } from "vitest";
import { isTruncated, parseEnvelope } from "../../../src/model/envelope.ts";
import { fieldsSchema, subjectOf } from "../../../src/model/event.ts";
import { hasIdLength } from "../../../src/model/ids.ts";

const fields = fieldsSchema.parse({});

const identifier = fc.string({ unit: "grapheme", minLength: 1, maxLength: 60 });
const time = fc
  .date({
    noInvalidDate: true,
    min: new Date("1000-01-01T00:00:00Z"),
    max: new Date("9999-12-31T23:59:59Z"),
  })
  .map((date) => date.toISOString());
const envelope = fc.record({
  id: identifier,
  event: identifier,
  createdAt: time,
  data: fc.dictionary(fc.string(), fc.jsonValue()),
});
const bytes = (value: unknown) => Buffer.from(JSON.stringify(value));

test("parses any bytes to an envelope or a one-line reason, and never throws", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.uint8Array({ maxLength: 300 }),
        fc.json().map((text) => Buffer.from(text)),
        fc.string({ unit: "binary" }).map((text) => Buffer.from(text)),
      ),
      (body) => {
        const parsed = parseEnvelope(Buffer.from(body));
        if (parsed.ok) return;
        expect(parsed.error).toMatch(/^[^\n]{3,600}$/);
      },
    ),
    { numRuns: 400 },
  );
});

test("reads a valid envelope unchanged", () => {
  fc.assert(
    fc.property(
      envelope,
      fc.dictionary(fc.constantFrom("version", "trace", "x"), fc.jsonValue()),
      (value, more) => {
        const parsed = parseEnvelope(bytes({ ...more, ...value }));
        expect(parsed).toMatchObject({
          ok: true,
          envelope: { id: value.id, event: value.event, createdAt: value.createdAt },
        });
        if (parsed.ok) {
          for (const [key, kept] of Object.entries(
            JSON.parse(JSON.stringify(value.data)) as Record<string, unknown>,
          )) {
            if (key !== "__proto__") expect(parsed.envelope.data[key]).toEqual(kept);
          }
        }
      },
    ),
  );
});

test("names a field that is missing or has another type", () => {
  const spoilt = fc
    .constantFrom("id", "event", "data")
    .chain((name) =>
      fc.tuple(
        fc.constant(name),
        name === "data"
          ? fc.oneof(fc.string(), fc.integer(), fc.array(fc.jsonValue()), fc.constant(undefined))
          : fc.oneof(
              fc.integer(),
              fc.constant(null),
              fc.boolean(),
              fc.array(fc.string()),
              fc.dictionary(fc.string(), fc.string()),
              fc.constant(""),
              fc.constant(undefined),
            ),
      ),
    );
  fc.assert(
    fc.property(envelope, spoilt, (value, [name, spoil]) => {
      const parsed = parseEnvelope(bytes({ ...value, [name]: spoil }));
      expect(parsed.ok).toBe(false);
      if (!parsed.ok) expect(parsed.error.startsWith(`${name} `)).toBe(true);
    }),
  );
});

test("does not quote the body, which may contain a phone number", () => {
  fc.assert(
    fc.property(
      fc.stringMatching(/^[0-9]{9,15}$/),
      fc.constantFrom("id", "event", "data"),
      (phone, name) => {
        const good = { id: "i", event: "e", createdAt: "2026-11-21T12:00:00Z", data: {} };
        for (const value of [Number(phone), [phone], phone.repeat(20)]) {
          const parsed = parseEnvelope(bytes({ ...good, [name]: value }));
          if (!parsed.ok) expect(parsed.error).not.toContain(phone);
        }
      },
    ),
  );
});

test("rejects ids that are not valid UTF-8, because two could be stored as one", () => {
  for (const escaped of ["\\ud800", "a\\udfff", "\\ud800\\ud800", "\\udc00\\ud800"]) {
    expect(
      parseEnvelope(
        Buffer.from(`{"id":"${escaped}","event":"e","createdAt":"2026-11-21T12:00:00Z","data":{}}`),
      ).ok,
    ).toBe(false);
  }
  expect(
    parseEnvelope(
      Buffer.from(
        '{"id":"\\ud83d\\ude00","event":"e","createdAt":"2026-11-21T12:00:00Z","data":{}}',
      ),
    ).ok,
  ).toBe(true);
});

test("reads a subject that can be stored from any envelope", () => {
  const value = fc.oneof(fc.string({ unit: "binary" }), fc.jsonValue(), fc.double());
  const data = fc.record(
    { wamid: value, status: value, errorCode: value, runId: value, error: value, truncated: value },
    { requiredKeys: [] },
  );
  fc.assert(
    fc.property(
      fc.constantFrom(
        "message.status",
        "message.",
        "automation.completed",
        "automation.failed",
        "automation.x",
        "other",
      ),
      data,
      (event, fill) => {
        const body = bytes({ id: "i", event, createdAt: "2026-11-21T12:00:00Z", data: fill });
        const parsed = parseEnvelope(body);
        expect(parsed.ok).toBe(true);
        if (!parsed.ok) return;
        expect(typeof isTruncated(parsed.envelope)).toBe("boolean");
        const subject = subjectOf(parsed.envelope, fields);
        const key =
          subject.type === "message"
            ? subject.wamid
            : subject.type === "run"
              ? subject.runId
              : "none";
        expect(key.isWellFormed() && key.length > 0 && hasIdLength(key)).toBe(true);
        if (subject.type === "message")
          for (const word of [subject.status ?? "", subject.errorCode ?? ""])
            expect(word.isWellFormed() && hasIdLength(word)).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});
