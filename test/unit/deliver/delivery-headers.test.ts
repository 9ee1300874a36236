import fc from "fast-check";
import { Webhook } from "standardwebhooks";
import { Webhook as SvixWebhook } from "svix";
import { expect, test } from "vitest";
import {
  createDeliveryHeaders,
  eventHeader,
  type OutgoingDelivery,
} from "../../../src/deliver/destinations/destination.ts";
import { urlDestinationSchema } from "../../../src/deliver/settings.ts";
import type { DeliveryId } from "../../../src/model/ids.ts";

const now = 1_795_000_000_999;
const delivery: OutgoingDelivery = {
  id: "dlv_1" as DeliveryId,
  event: "message.status",
  eventId: null,
  attempt: 1,
  replays: 0,
  body: Buffer.from('{"a":1}'),
  contentType: "application/json",
  contentEncoding: null,
  passHeaders: {},
};

function headersOf(
  settings: Record<string, unknown>,
  change: Partial<OutgoingDelivery> = {},
): Record<string, string> {
  const list = createDeliveryHeaders(
    urlDestinationSchema.parse({ url: "https://x.example/", ...settings }),
    "1.2.3",
  )({ ...delivery, ...change }, now);
  const headers: Record<string, string> = {};
  for (let index = 0; index < list.length; index += 2) {
    const name = list[index] as string;
    if (name in headers) throw new Error(`${name} twice`);
    headers[name] = list[index + 1] as string;
  }
  return headers;
}

test("every delivery has the relay's headers", () => {
  expect(headersOf({ headers: { "X-Team": "support" } })).toEqual({
    "x-team": "support",
    "user-agent": "wamid-relay/1.2.3",
    "content-type": "application/json",
    "webhook-attempt": "1",
    "x-wamid-relay-event": "message.status",
    "webhook-id": "dlv_1",
    "webhook-timestamp": "1795000000",
  });
  expect(headersOf({}, { replays: 1, attempt: 4 })).toMatchObject({
    "webhook-replay": "true",
    "webhook-attempt": "4",
  });
});

test("passes original signature headers, but no connection headers and none from the settings", () => {
  const passHeaders = {
    "x-acme-signature": "sha256=ab",
    "content-type": "text/plain",
    host: "evil",
    "content-length": "9",
    "x-team": "theirs",
  };
  const headers = headersOf({ headers: { "x-team": "ours" } }, { passHeaders });
  expect(headers).toMatchObject({
    "x-acme-signature": "sha256=ab",
    "content-type": "application/json",
    "x-team": "ours",
  });
  expect(headers).not.toHaveProperty("host");
  expect(headers).not.toHaveProperty("content-length");
});

test("keeps an original Standard Webhooks signature unless the relay signs itself", () => {
  const passHeaders = {
    "webhook-id": "msg_1",
    "webhook-timestamp": "5",
    "webhook-signature": "v1,x",
  };
  expect(headersOf({}, { passHeaders })).toMatchObject(passHeaders);
  const signed = headersOf({ secret: "plain" }, { passHeaders });
  expect(signed).toMatchObject({ "webhook-id": "dlv_1", "webhook-timestamp": "1795000000" });
  expect(signed["webhook-signature"]).not.toBe("v1,x");
});

test("signs like the standardwebhooks library, with both kinds of secret and any body", () => {
  const secret = fc.oneof(
    fc
      .uint8Array({ minLength: 1, maxLength: 64 })
      .map((key) => `whsec_${Buffer.from(key).toString("base64")}`),
    fc
      .string({ minLength: 1, unit: "grapheme" })
      .filter((text) => text !== "" && !text.startsWith("whsec_")),
  );
  fc.assert(
    fc.property(secret, fc.json(), (text, body) => {
      const headers = headersOf({ secret: text }, { body: Buffer.from(body) });
      const webhook = text.startsWith("whsec_")
        ? new Webhook(text)
        : new Webhook(Buffer.from(text).toString("base64"));
      expect(headers["webhook-signature"]).toBe(webhook.sign("dlv_1", new Date(now), body));
    }),
  );
});

test("encodes any event kind as a valid header that can be decoded", () => {
  expect(eventHeader("message.status")).toBe("message.status");
  expect(eventHeader("mensaje.leído")).toBe("mensaje.le%C3%ADdo");
  expect(eventHeader("\ud800")).toBe("%EF%BF%BD");
  fc.assert(
    fc.property(fc.string({ minLength: 1, unit: "grapheme" }), (event) => {
      expect(eventHeader(event)).toMatch(/^[\x21-\x7e]+$/);
      expect(decodeURIComponent(eventHeader(event))).toBe(event);
    }),
  );
});

test("signs once per secret, so that both svix and standardwebhooks verify with any of them", () => {
  const first = `whsec_${Buffer.alloc(32, 1).toString("base64")}`;
  const second = `whsec_${Buffer.alloc(32, 2).toString("base64")}`;
  const both = createDeliveryHeaders(
    urlDestinationSchema.parse({ url: "https://x.example/", secrets: [first, second] }),
    "1",
  )(delivery, Date.now());
  const headers = Object.fromEntries(
    both.flatMap((name, index) => (index % 2 === 0 ? [[name, both[index + 1] as string]] : [])),
  );
  expect(headers["webhook-signature"]).toMatch(/^v1,\S{44} v1,\S{44}$/);
  for (const Library of [Webhook, SvixWebhook]) {
    for (const secret of [first, second])
      expect(new Library(secret).verify('{"a":1}', headers)).toEqual({ a: 1 });
    expect(() =>
      new Library(`whsec_${Buffer.alloc(32, 3).toString("base64")}`).verify('{"a":1}', headers),
    ).toThrow();
  }
  // The first signature is that of `secret` alone: adding a second one changes nothing for who
  // verifies the first.
  const [alone] = (headersOf({ secret: first })["webhook-signature"] ?? "").split(" ");
  expect(headersOf({ secrets: [first, second] })["webhook-signature"]?.split(" ")[0]).toBe(alone);
});
