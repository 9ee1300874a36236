import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fieldsSchema } from "../../../../src/model/event.ts";
import { meta } from "../../../../src/model/formats/meta.ts";

const fields = fieldsSchema.parse({});
const read = (body: unknown, from?: { digest: string; place: number }) =>
  meta.items(Buffer.isBuffer(body) ? body : Buffer.from(JSON.stringify(body)), {
    source: "wa",
    fields,
    ...(from && { from }),
  });

const metadata = { display_phone_number: "15550783881", phone_number_id: "106540352242922" };
const request = (value: object, field = "messages", entry: object = {}) => ({
  object: "whatsapp_business_account",
  entry: [
    {
      id: "102290129340398",
      ...entry,
      changes: [{ value: { messaging_product: "whatsapp", metadata, ...value }, field }],
    },
  ],
});
const sent = (more: object = {}) => ({
  id: "wamid.A",
  status: "sent",
  timestamp: "1750263773",
  recipient_id: "16505551234",
  ...more,
});
const idOf = (item: ReturnType<typeof read>[number] | undefined) =>
  item?.content.ok === true ? item.content.envelope.id : undefined;

describe("Meta's webhooks", () => {
  it("reads a status as the relay's own envelope", () => {
    const failed = sent({
      status: "failed",
      errors: [
        { code: 131049, title: "healthy ecosystem", error_data: { details: "not delivered" } },
      ],
      biz_opaque_callback_data: "order-7",
    });
    const [item, ...others] = read(request({ statuses: [failed] }));
    expect(others).toEqual([]);
    expect(item?.numbers).toEqual(["106540352242922", "102290129340398"]);
    expect(item?.content).toMatchObject({
      ok: true,
      envelope: {
        event: "message.status",
        createdAt: "2025-06-18T16:22:53.000Z",
        data: {
          wamid: "wamid.A",
          status: "failed",
          recipient: "16505551234",
          phoneNumberId: "106540352242922",
          wabaId: "102290129340398",
          errorCode: "131049",
          errorTitle: "healthy ecosystem",
          errorDetails: "not delivered",
          reference: "order-7",
          raw: failed,
        },
      },
      subject: {
        type: "message",
        wamid: "wamid.A",
        status: "failed",
        errorCode: "131049",
        reference: "order-7",
      },
    });
  });

  it("takes as much as Meta of what a sender attached to a message as its reference", () => {
    const referenceOf = (text: string) => {
      const [item] = read(request({ statuses: [sent({ biz_opaque_callback_data: text })] }));
      expect(item?.content).toMatchObject({ envelope: { data: { reference: text } } });
      return item?.content.ok === true && "reference" in item.content.subject;
    };
    expect(["x".repeat(512), "x".repeat(513)].map(referenceOf)).toEqual([true, false]);
  });

  it("counts played as read and keeps the word", () => {
    const [item] = read(request({ statuses: [sent({ status: "played" })] }));
    expect(item?.content).toMatchObject({
      envelope: { data: { status: "read", raw: { status: "played" } } },
      subject: { status: "read" },
    });
    expect(idOf(item)).not.toBe(idOf(read(request({ statuses: [sent({ status: "read" })] }))[0]));
  });

  it("keeps the bytes of a request with one item", () => {
    const body = Buffer.from(`${JSON.stringify(request({ statuses: [sent()] }), null, 2)}\n`);
    expect(read(body).map((item) => item.body)).toEqual([body]);
  });

  it("gives each item a request of its own, with only its own contact, as the bytes were written", () => {
    const body = Buffer.from(
      '{"gs_app_id":"x","object":"whatsapp_business_account","entry":[{"id":"1","time":17,"changes":[{"value":{"messaging_product":"whatsapp",' +
        '"metadata":{"phone_number_id":"2"},"contacts":[{"wa_id":"31","profile":{"name":"Z\\u00fc"}},{"user_id":"NL.9"},{"user_id":"NL.8","parent_user_id":"NL.ENT.8"}],' +
        '"statuses":[ {"id":"wamid.1","status":"sent","recipient_id":"31","n":1.50} , {"id":"wamid.2","status":"read","recipient_user_id":"NL.9"},' +
        '{"id":"wamid.2","status":"sent","recipient_user_id":"NL.ENT.8"},' +
        '{"id":"wamid.3","status":"read","recipient_id":"33"}]},"field":"messages"}]}]}',
    );
    const frame = (contacts: string, status: string) =>
      `{"object":"whatsapp_business_account","entry":[{"id":"1","time":17,"changes":[{"value":{"messaging_product":"whatsapp",` +
      `"metadata":{"phone_number_id":"2"},${contacts}"statuses":[${status}]},"field":"messages"}]}]}`;
    expect(read(body).map((item) => item.body.toString())).toEqual([
      frame(
        '"contacts":[{"wa_id":"31","profile":{"name":"Z\\u00fc"}}],',
        '{"id":"wamid.1","status":"sent","recipient_id":"31","n":1.50}',
      ),
      frame(
        '"contacts":[{"user_id":"NL.9"}],',
        '{"id":"wamid.2","status":"read","recipient_user_id":"NL.9"}',
      ),
      frame(
        '"contacts":[{"user_id":"NL.8","parent_user_id":"NL.ENT.8"}],',
        '{"id":"wamid.2","status":"sent","recipient_user_id":"NL.ENT.8"}',
      ),
      frame("", '{"id":"wamid.3","status":"read","recipient_id":"33"}'),
    ]);
  });

  it("reads each item with its own contact", () => {
    const ana = { wa_id: "31", profile: { name: "Zoë" } };
    const bo = { user_id: "NL.9", profile: { name: "Bo", username: "bo" } };
    const items = read(
      request({
        contacts: [ana, bo],
        messages: [
          { id: "wamid.1", from: "31" },
          { id: "wamid.2", from_user_id: "NL.9" },
          { id: "wamid.3", from: "32" },
        ],
        statuses: [sent({ recipient_id: "31" })],
      }),
    );
    expect(
      items.map(({ content }) => content.ok && [content.envelope.event, content.envelope.data]),
    ).toEqual([
      ["message.status", expect.objectContaining({ contact: ana })],
      ["message.received", expect.objectContaining({ contact: ana })],
      ["message.received", expect.objectContaining({ contact: bo })],
      ["message.received", expect.not.objectContaining({ contact: expect.anything() })],
    ]);
    expect(items.map(({ body }) => read(body)[0]?.content)).toEqual(
      items.map(({ content }) => content),
    );
  });

  it("splits a mixed request and names every part", () => {
    const items = read({
      object: "whatsapp_business_account",
      entry: [
        request({
          statuses: [
            sent(),
            7,
            { id: "wamid.B" },
            sent({ type: "call", id: "wacid.1", status: "RINGING" }),
          ],
          messages: [{ id: "wamid.C" }],
        }).entry[0],
        7,
        request({ event: "APPROVED" }, "message_template_status_update").entry[0],
        request({ x: 1 }, "brand_new").entry[0],
        request({ calls: [{ id: "wacid.2", event: "connect" }] }, "calls").entry[0],
        request({ message_echoes: [{ id: "wamid.D", to: "31" }] }, "smb_message_echoes").entry[0],
        request({ errors: [{ code: 130429 }], user_actions: [{}] }).entry[0],
        { id: "3", changes: [{ value: {} }] },
        { id: "3" },
      ],
    });
    expect(
      items.map(({ content }) => (content.ok ? content.envelope.event : content.error)),
    ).toEqual([
      "message.status",
      "statuses[1] is not an object",
      "statuses[2].status is missing",
      "call.status",
      "message.received",
      "entry[1] is not an object",
      "template.status",
      "meta.brand_new",
      "call.connect",
      "message.echoed",
      "number.error",
      "meta.messages",
      "entry[7].changes[0] has no field",
      "entry[8].changes is missing",
    ]);
  });

  it("names two participants of a group apart, and the repeated request alike", () => {
    const group = (participant: string) =>
      sent({ recipient_type: "group", recipient_participant_id: participant });
    const body = request({ statuses: [group("31"), group("32")] });
    const [first, second] = read(body).map(idOf);
    expect(first).not.toBe(second);
    expect(read(body).map(idOf)).toEqual([first, second]);
    expect(read(request({ statuses: [group("32")] })).map(idOf)).toEqual([second]);
  });

  it("keeps a payment, and each later word on it, out of the message's statuses", () => {
    const payment = (status: string, transaction: object) =>
      read(
        request({
          statuses: [
            sent({ type: "payment", status, payment: { reference_id: "order-7", transaction } }),
          ],
        }),
      )[0];
    const items = [
      payment("failed", { id: "1" }),
      payment("captured", { id: "2" }),
      payment("captured", { id: "2", refunds: [{ id: "3", status: "completed" }] }),
    ];
    expect(new Set(items.map(idOf)).size).toBe(3);
    expect(idOf(payment("failed", { id: "1" }))).toBe(idOf(items[0]));
    expect(items[0]?.content).toMatchObject({
      envelope: {
        event: "payment.status",
        data: {
          wamid: "wamid.A",
          status: "failed",
          recipient: "16505551234",
          reference: "order-7",
        },
      },
      subject: { type: "message", wamid: "wamid.A", status: null },
    });
    const [ordinary] = read(request({ statuses: [sent({ type: "message" })] }));
    expect(ordinary?.content).toMatchObject({ subject: { status: "sent" } });
  });

  it("takes a message that was unavailable, and the message itself, as two events", () => {
    const of = (message: object) =>
      idOf(read(request({ messages: [{ id: "wamid.M", from: "31", ...message }] }))[0]);
    const unavailable = { type: "unsupported", errors: [{ code: 131060 }] };
    expect(of({ type: "text", text: { body: "hi" } })).not.toBe(of(unavailable));
    expect(of({ ...unavailable, unsupported: { type: "x" } })).toBe(of(unavailable));
  });

  it("reads a partner's update as one of the account that it is about, then of the business", () => {
    const [item] = read({
      object: "whatsapp_business_account",
      entry: [
        {
          id: "9",
          changes: [
            {
              field: "account_update",
              value: { event: "PARTNER_ADDED", waba_info: { waba_id: "102290129340398" } },
            },
          ],
        },
      ],
    });
    expect(item).toMatchObject({
      numbers: ["102290129340398", "9"],
      content: { envelope: { data: { wabaId: "102290129340398" } } },
    });
  });

  it("knows a change again whatever the order of its keys", () => {
    const [one] = read(
      request({ event: "APPROVED", reason: null }, "message_template_status_update", { time: 5 }),
    );
    const [same] = read(
      request({ reason: null, event: "APPROVED" }, "message_template_status_update", { time: 5 }),
    );
    const [later] = read(
      request({ reason: null, event: "APPROVED" }, "message_template_status_update", { time: 6 }),
    );
    expect(idOf(one)).toBe(idOf(same));
    expect(idOf(later)).not.toBe(idOf(one));
  });

  it("takes an error that has neither an id nor a time as a repeat for an hour only", () => {
    const at = (receivedAt: number, value: object) =>
      meta
        .items(Buffer.from(JSON.stringify(request(value))), { source: "wa", fields, receivedAt })
        .map(idOf)[0];
    const hour = 3_600_000;
    const error = { errors: [{ code: 130429, title: "Rate limit hit" }] };
    expect(at(5 * hour, error)).toBe(at(6 * hour - 1, error));
    expect(at(6 * hour, error)).not.toBe(at(6 * hour - 1, error));
    const nameless = { messages: [{ timestamp: "1750263773", type: "text" }] };
    expect(at(6 * hour, nameless)).toBe(at(5 * hour, nameless));
  });

  it.each([
    ["not JSON", "hello", "the body is not valid JSON"],
    ["another sender's", '{"id":1}', "the body is not {object, entry}"],
    [
      "nothing in it",
      '{"object":"whatsapp_business_account","entry":[]}',
      "the body has no updates",
    ],
    [
      "a million entries",
      `{"object":"x","entry":[${"{},".repeat(1_000_000)}{}]}`,
      "the body has more than 250,000 values",
    ],
    [
      "too many updates",
      `{"object":"x","entry":[${"7,".repeat(10_000)}7]}`,
      "the body has more than 10,000 updates",
    ],
    [
      "a hundred thousand levels",
      `{"object":"x","entry":[{"changes":[{"field":"flows","value":${"[".repeat(100_000)}${"]".repeat(100_000)}}]}]}`,
      "the body is nested more than 32 levels deep",
    ],
    ["invalid UTF-8", Buffer.from([0x7b, 0xff, 0x7d]), "the body is not valid UTF-8"],
  ])("keeps a body with %s whole, with the reason", (_name, text, error) => {
    const body = Buffer.from(text);
    expect(read(body)).toEqual([{ body, numbers: [], content: { ok: false, error } }]);
  });

  it("reads each item again from its own bytes", () => {
    const json = fc.jsonValue({ maxDepth: 3 });
    const id = fc.oneof(fc.string(), fc.constantFrom("31", "wamid.A"), fc.integer());
    const item = fc.oneof(
      fc.record(
        {
          id,
          status: fc.constantFrom("sent", "failed", "played", "x"),
          type: fc.constantFrom("call", "payment", "text"),
          event: fc.constantFrom("connect", "terminate", "z"),
          timestamp: fc.oneof(json, fc.constant("1750263773")),
          recipient_id: id,
          from: id,
          errors: fc.oneof(json, fc.constant([{ code: 7 }])),
        },
        { requiredKeys: [] },
      ),
      json,
    );
    const list = fc.oneof(fc.array(item, { maxLength: 3 }), json);
    const value = fc.record(
      {
        metadata: fc.oneof(fc.record({ phone_number_id: id }), json),
        contacts: fc.oneof(fc.array(fc.record({ wa_id: id })), json),
        statuses: list,
        messages: list,
        message_echoes: list,
        calls: list,
        errors: list,
        more: json,
      },
      { requiredKeys: [] },
    );
    const change = fc.oneof(
      fc.record({
        field: fc.constantFrom("messages", "calls", "smb_message_echoes", "flows", "history", ""),
        value: fc.oneof(value, json),
      }),
      json,
    );
    const entry = fc.oneof(
      fc.record(
        { id, time: json, changes: fc.oneof(fc.array(change, { maxLength: 3 }), json) },
        { requiredKeys: [] },
      ),
      json,
    );
    const requests = fc.record({
      object: fc.constantFrom("whatsapp_business_account", "page"),
      entry: fc.array(entry, { maxLength: 3 }),
    });
    fc.assert(
      fc.property(requests, fc.boolean(), (parsed, spaced) => {
        const body = Buffer.from(JSON.stringify(parsed, null, spaced ? " " : undefined));
        const digest = createHash("sha256").update(body).digest("hex");
        for (const [place, { body: own, numbers, content }] of read(body).entries()) {
          const again = read(own, { digest, place });
          expect(again).toHaveLength(1);
          expect(again[0]?.numbers).toEqual(numbers);
          if (content.ok) expect(again[0]?.content).toEqual(content);
          else expect(again[0]?.content.ok).toBe(false);
        }
      }),
    );
  });
});
