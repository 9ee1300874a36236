import fc from "fast-check";
import { expect, test } from "vitest";
import { compose, enrich } from "../../../src/deliver/attempt.ts";
import type { StoredDelivery } from "../../../src/model/delivery.ts";
import { fieldsSchema, polledEvent } from "../../../src/model/event.ts";
import type { EventId, Wamid } from "../../../src/model/ids.ts";

const relay = { deliveryId: "dlv_1", route: "r", note: 'ñ \u2028 "quoted"' };

test("adds one member to a JSON object and keeps every byte before it", () => {
  const blank = fc.string({ unit: fc.constantFrom(" ", "\t", "\n", "\r"), maxLength: 3 });
  fc.assert(
    fc.property(
      fc.dictionary(fc.string(), fc.jsonValue()),
      blank,
      blank,
      fc.nat(3),
      (object, before, after, indent) => {
        const body = Buffer.from(before + JSON.stringify(object, null, indent) + after);
        const enriched = enrich(body, relay);
        expect(JSON.parse(enriched.toString("utf8"))).toEqual({
          ...JSON.parse(body.toString("utf8")),
          relay,
        });
        const kept = body.lastIndexOf("}");
        expect(enriched.subarray(0, kept)).toEqual(body.subarray(0, kept));
      },
    ),
  );
});

test("keeps numbers, escapes and the order of members", () => {
  const text = '{"b": 12345678901234567890, "a":"\\u00f1\\/", "n":1.0 }';
  expect(enrich(Buffer.from(text), { route: "r" }).toString()).toBe(
    `${text.slice(0, -1)},"relay":{"route":"r"}}`,
  );
});

test.each([
  [
    '{"relay":{"a":1},"b":12345678901234567890,"c":1.0}',
    '{"b":12345678901234567890,"c":1.0,"relay":{"route":"r"}}',
  ],
  ['{"re\\u006Cay":1,"__proto__":{"relay":2}}', '{"__proto__":{"relay":2},"relay":{"route":"r"}}'],
  ['{"relay":1,"relay":null}', '{"relay":{"route":"r"}}'],
  [
    '{ "data":{"relay":1}, "a":"\\u00f1" }',
    '{ "data":{"relay":1}, "a":"\\u00f1" ,"relay":{"route":"r"}}',
  ],
])("has one top-level relay when the sender has its own: %s", (text, enriched) => {
  expect(enrich(Buffer.from(text), { route: "r" }).toString()).toBe(enriched);
});

test("leaves a body that is not an object unchanged", () => {
  for (const text of ["", "{", "}", "[]", '"{}"', "42", " ", "text}"]) {
    expect(enrich(Buffer.from(text), relay).toString()).toBe(text);
  }
});

test.each([
  [
    "messages",
    '{"statuses":[{"id":"wamid.1","status":"sent","n":1.50}]}',
    '{"id":"wamid.1","status":"sent","n":1.50}',
  ],
  ["flows", '{"event":"CLIENT_ERROR_RATE","errors":[{"rate":1e2}],"name":"\u00f1"}', null],
  [
    "message_template_status_update",
    '{"event":"APPROVED","message_template_id":1234567890123456}',
    null,
  ],
])(
  "sends Meta's item as `raw` of the envelope, numbers as they were written: %s",
  (field, value, item) => {
    const delivery = {
      format: "meta",
      account: "main",
      eventId: "e1" as EventId,
      route: "crm",
      kind: "x",
      receivedAt: Date.parse("2025-06-18T16:23:00.000Z"),
      headers: {},
      body: Buffer.from(
        `{"object":"whatsapp_business_account","entry":[{"id":"1","time":1750263773,"changes":[{"field":"${field}","value":${value}}]}]}`,
      ),
    } as unknown as StoredDelivery;
    const text = compose(delivery, "standard", false).body.toString("utf8");
    // Of an item without a time, when it was received.
    const createdAt = item === null ? "2025-06-18T16:22:53.000Z" : "2025-06-18T16:23:00.000Z";
    expect(text.startsWith(`{"id":"e1","event":"x","createdAt":"${createdAt}","data":{`)).toBe(
      true,
    );
    expect(text.endsWith(`"raw":${item ?? value.replace("\u00f1", "\\u00f1")}}}`)).toBe(true);
  },
);

test("an event that the relay made keeps one `relay` object, with the members of both", () => {
  const { body } = polledEvent({
    account: "main",
    source: "main",
    fields: fieldsSchema.parse({}),
    origin: "reconcile",
    messageId: "m1",
    wamid: "w1" as Wamid,
    status: "delivered",
    errorCode: null,
    at: 1_800_000_000_000,
  });
  const delivery = {
    account: "main",
    eventId: "e1" as EventId,
    route: "crm",
    kind: "message.status",
    origin: "reconcile",
    source: "main",
    receivedAt: 1_800_000_000_000,
    attempts: 0,
    replays: 0,
    headers: {},
    body,
    subject: null,
  } as unknown as StoredDelivery;
  const text = compose(delivery, "enriched", false).body.toString("utf8");
  expect(text.match(/"relay":/g)).toHaveLength(1);
  expect(JSON.parse(text)).toMatchObject({
    ...JSON.parse(body.toString("utf8")),
    relay: {
      origin: "reconcile",
      messageId: "m1",
      route: "crm",
      deliveryId: expect.stringMatching(/^dlv_/),
    },
  });
});
