import fc from "fast-check";
import { expect, test } from "vitest";
import {
  createdAtOf,
  envelopeSchema,
  isUsualEnvelope,
  parseEnvelope,
  readTime,
} from "../../../src/model/envelope.ts";

const usual = {
  id: "01998d3e-7c1a-7000-8000-00000000002a",
  event: "message.status",
  createdAt: "2026-11-21T12:34:56.789Z",
  data: { wamid: "wamid.x", status: "sent" },
};

test("returns the parsed object for a usual envelope", () => {
  expect(isUsualEnvelope(usual)).toBe(true);
  expect(parseEnvelope(Buffer.from(JSON.stringify(usual)))).toEqual({ ok: true, envelope: usual });
});

test("accepts as usual only what the schema accepts", () => {
  const near = fc.record({
    id: fc.oneof(fc.uuid(), fc.constant(usual.id), fc.string()),
    event: fc.oneof(fc.constant("message.status"), fc.string()),
    createdAt: fc.oneof(
      fc
        .date({ noInvalidDate: true, min: new Date("1990-01-01"), max: new Date("2110-01-01") })
        .map((date) => date.toISOString()),
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
      if (!isUsualEnvelope(value)) return;
      expect(envelopeSchema.safeParse(value).success).toBe(true);
      expect(readTime(value.createdAt)).toBe(value.createdAt);
    }),
    { numRuns: 1_500 },
  );
});

test.each([
  [
    "Meta's Cloud API",
    {
      object: "whatsapp_business_account",
      entry: [{ id: "1", changes: [{ field: "messages", value: {} }] }],
    },
  ],
  ["Meta's Graph API", { object: "page", entry: [] }],
  ["Stripe", { id: "evt_1", object: "event", type: "charge.succeeded", data: { object: {} } }],
  [
    "AWS SNS",
    { Type: "Notification", MessageId: "1", TopicArn: "arn:aws:sns:eu-west-1:1:t", Message: "{}" },
  ],
  ["GitHub", { action: "opened", repository: {}, sender: {} }],
  ["Shopify", { id: 1, admin_graphql_api_id: "gid://shopify/Order/1" }],
  ["CloudEvents", { specversion: "1.0", id: "1", source: "/a", type: "b", data: {} }],
  ["Vonage", { message_uuid: "1", channel: "whatsapp", status: "read" }],
  [
    "YCloud",
    {
      id: "evt_1",
      type: "whatsapp.message.updated",
      apiVersion: "v2",
      createTime: "2026-11-24T12:00:00Z",
    },
  ],
  ["Evolution API", { event: "messages.update", instance: "a", data: {} }],
])("names the sender of another envelope: %s", (sender, body) => {
  const error = `the body is an envelope of ${sender}; the relay reads {id, event, createdAt, data}`;
  expect(parseEnvelope(Buffer.from(JSON.stringify(body)))).toEqual({ ok: false, error });
});

test("takes a NUL character in the id, which is stored as bytes, but not in the kind", () => {
  expect(parseEnvelope(Buffer.from(JSON.stringify({ ...usual, id: "a\0b" })))).toMatchObject({
    ok: true,
  });
  expect(parseEnvelope(Buffer.from(JSON.stringify({ ...usual, event: "a\0b" })))).toEqual({
    ok: false,
    error: "event has a NUL character",
  });
});

test("names a form, and Twilio's", () => {
  const fault = (text: string) => (parseEnvelope(Buffer.from(text)) as { error?: string }).error;
  expect(fault("MessageSid=SM1&AccountSid=AC1&Body=a%20b+c")).toMatch(
    /^the body is a form of Twilio's; the relay reads/,
  );
  expect(fault("a=1&b=2")).toMatch(/^the body is a form; /);
  expect(fault("x=1 {")).toBe("the body is not valid JSON");
  expect(fault('{"a":"b=c"')).toBe("the body is not valid JSON");
});

test("never names a sender for a valid envelope, or for one with a single fault", () => {
  expect(
    parseEnvelope(
      Buffer.from(
        JSON.stringify({ ...usual, object: "event", type: "a", repository: 1, sender: 2 }),
      ),
    ).ok,
  ).toBe(true);
  expect(parseEnvelope(Buffer.from(JSON.stringify({ ...usual, id: undefined })))).toEqual({
    ok: false,
    error: "id is missing",
  });
});

const noon = Date.parse("2026-11-21T12:00:00Z");

test.each<readonly [name: string, value: unknown, at: number]>([
  ["milliseconds and Z", "2026-11-21T12:00:00.000Z", noon],
  ["lower-case t and z", "2026-11-21t12:00:00z", noon],
  ["a space in place of T", "2026-11-21 12:00:00Z", noon],
  ["no seconds", "2026-11-21T12:00Z", noon],
  ["an offset", "2026-11-21T09:00:00-03:00", noon],
  ["an offset without a colon", "2026-11-21T17:30:00+0530", noon],
  ["an offset of hours", "2026-11-21T13:00:00+01", noon],
  ["nanoseconds", "2026-11-21T12:00:00.123456789Z", noon + 123],
  ["a comma before the fraction", "2026-11-21T12:00:00,5Z", noon + 500],
  ["no zone, which is UTC", "2026-11-21T12:00:00.250", noon + 250],
  ["unix seconds", noon / 1000, noon],
  ["unix seconds with a fraction", noon / 1000 + 0.5, noon + 500],
  ["unix milliseconds", noon, noon],
  ["unix seconds as text", String(noon / 1000), noon],
  ["unix milliseconds as text", String(noon), noon],
])("reads a time with %s", (_name, value, at) => {
  const parsed = parseEnvelope(Buffer.from(JSON.stringify({ ...usual, createdAt: value })));
  expect(parsed).toMatchObject({ ok: true });
  if (parsed.ok) expect(createdAtOf(parsed.envelope, 1)).toBe(at);
});

test.each<readonly [name: string, value: unknown]>([
  ["none", undefined],
  ["null", null],
  ["an object", { at: noon }],
  ["text that is no time", "yesterday"],
  ["an empty text", ""],
  ["the thirtieth of February", "2026-02-30T12:00:00Z"],
  ["a date alone", "2026-11-21"],
  ["another order of day and month", "21/11/2026 12:00:00"],
  ["a number that could be seconds or milliseconds", 500_000_000_000],
  ["a negative number", -noon],
  ["a small number", 17],
  ["microseconds", noon * 1000],
  ["a megabyte of digits", "1".repeat(1024 * 1024)],
])("uses the time of receipt when the envelope's time is %s", (_name, value) => {
  const parsed = parseEnvelope(Buffer.from(JSON.stringify({ ...usual, createdAt: value })));
  expect(parsed).toMatchObject({ ok: true, envelope: { createdAt: null } });
  if (parsed.ok) expect(createdAtOf(parsed.envelope, noon)).toBe(noon);
});

test("reads any time quickly, as a valid moment", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.jsonValue(),
        fc.double(),
        fc.string(),
        fc.stringMatching(/^[-0-9TZtz:.,+ ]{1,40}$/),
      ),
      (value) => {
        const time = readTime(value);
        if (time !== null) expect(Number.isNaN(Date.parse(time))).toBe(false);
      },
    ),
    { numRuns: 600 },
  );
});

test("reads null data as empty data, for any kind", () => {
  for (const event of ["automation.completed", "message.status", "galaxy.collapsed"]) {
    const body = Buffer.from(JSON.stringify({ ...usual, event, data: null }));
    expect(parseEnvelope(body)).toMatchObject({ ok: true, envelope: { event, data: {} } });
  }
  expect(parseEnvelope(Buffer.from(JSON.stringify({ ...usual, data: undefined })))).toMatchObject({
    ok: false,
  });
});

test("limits an id to 256 characters, whatever their bytes", () => {
  const withId = (id: string) => parseEnvelope(Buffer.from(JSON.stringify({ ...usual, id })));
  for (const character of ["x", "é", "語", "😀"]) {
    expect(withId(character.repeat(256)).ok).toBe(true);
    expect(withId(character.repeat(257))).toMatchObject({
      ok: false,
      error: expect.stringMatching(/^id .*256 characters/),
    });
  }
});
