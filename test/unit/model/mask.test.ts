import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { noAccountText } from "../../../src/model/formats/formats.ts";
import { deliveryId, type EventId, routeTag, uuidv7 } from "../../../src/model/ids.ts";
import {
  knownIn,
  maskBody,
  maskId,
  maskText,
  maskValue,
  shownDeliveryId,
  shownId,
  shownKind,
  shownName,
} from "../../../src/model/mask.ts";
import { hostileId, phone, traces } from "../../harness/personal.ts";

const uuid = "01998d3e-7c1a-7000-8000-00000000002a";

test("shows a UUID and its delivery id unmasked", () => {
  expect(shownId("event", uuid)).toBe(uuid);
  const delivery = deliveryId("main", uuid as EventId, "crm");
  expect(shownDeliveryId(delivery)).toBe(delivery);
});

test.each([
  "00000000-0000-4000-8000-549115551234",
  "54911555-1234-4000-8abc-deffffffffff",
  "5491155551234",
  "evt_1",
  "wamid.HBgNNTQ5",
  "",
])("masks the id %j, the same each time", (id) => {
  const shown = shownId("event", id);
  expect(shown).toMatch(/^event:[0-9a-f]{12}$/);
  expect(shownId("event", id)).toBe(shown);
  expect(shownDeliveryId(deliveryId("main", id as EventId, "crm"))).toBe(
    id === ""
      ? maskId("delivery", deliveryId("main", id as EventId, "crm"))
      : `delivery:${shown.slice(6)}_${routeTag("main", "crm")}`,
  );
});

test("leaves most UUIDs as they are", () => {
  const ids = Array.from({ length: 2_000 }, (_, n) => {
    const hash = createHash("sha256").update(String(n)).digest();
    return uuidv7(1_763_800_000_000 + n, (size) => hash.subarray(0, size));
  });
  expect(ids.filter((id) => shownId("event", id) === id).length).toBeGreaterThan(1_600);
});

test.each(["message.status", "automation.failed", "message.status.v2", "contact_created", "a-b"])(
  "shows the kind %s unmasked",
  (kind) => {
    expect(shownKind(kind)).toBe(kind);
  },
);

test("hides phone numbers and wamids in ids, delivery ids and kinds", () => {
  fc.assert(
    fc.property(phone, phone.chain(hostileId), (number, id) => {
      for (const each of [id, number]) {
        const shown = [
          shownId("run", each),
          shownKind(each),
          shownName("listener", each),
          shownDeliveryId(deliveryId("main", each as EventId, "crm")),
        ].join("\n");
        for (const trace of [...traces(each), ...traces(number)]) {
          if (each !== number && !each.includes(trace)) continue;
          expect(shown).not.toContain(trace);
        }
      }
    }),
    { numRuns: 300 },
  );
});

describe("texts about an event", () => {
  const known = knownIn([
    {
      data: {
        wamid: "opaque-1",
        profile: { name: "Ximena Muñoz Li" },
        text: { body: 'call "me"' },
        to: "555-123",
        status: "sent",
        language: "es",
        createdAt: "2026-11-20T08:00:00Z",
      },
    },
  ]);

  test.each([
    ["no contact Ximena Muñoz Li", "no contact [text]"],
    ["XIMENA is unknown, as is Muñoz", "[text] is unknown, as is [text]"],
    ["Maximena, Munozes, Lisa", "Maximena, Munozes, Lisa"],
    ["name=Ximena%20Mu%C3%B1oz+Li&to=555-123", "name=[text]&to=[text]"],
    [
      '{"name":"Ximena Mu\\u00f1oz Li","body":"call \\"me\\""}',
      '{"name":"[text]","body":"[text]"}',
    ],
    [
      "opaque-1 was sent at 2026-11-20T08:00:00.000Z",
      `${maskId("wamid", "opaque-1")} was sent at 2026-11-20T08:00:00.000Z`,
    ],
  ])("hide what its body says: %s", (text, shown) => {
    expect(maskText(text, known)).toBe(shown);
  });

  test("stay as they are when the body says nothing of people", () => {
    expect(
      knownIn([
        { id: "e-1", event: "message.status", data: { status: "sent", wamid: "wamid.HBgNNTQ5" } },
        null,
        "a",
      ]),
    ).toBeNull();
  });

  test("cost little for a body with many long texts", () => {
    const large = knownIn([
      Array.from({ length: 100_000 }, (_, n) => `Name ${n} of many`),
      "x".repeat(1e6),
    ]);
    expect(large?.pattern.source.length).toBeLessThan(500_000);
    expect(maskText("Name 7 of many", large)).toBe("[text]");
  });
});

test("masks phone numbers and wamids in free text, also in base64 and percent-encoding", () => {
  fc.assert(
    fc.property(
      phone,
      fc.constantFrom("", "to ", "x=", "/path/", '{"a":"', "abcdefghijkl"),
      fc.string({ maxLength: 5 }),
      (number, before, after) => {
        for (const trace of traces(number))
          expect(maskText(`${before}${trace}"${after}`)).not.toContain(trace);
      },
    ),
    { numRuns: 200 },
  );
});

test("masks a wamid in text like the wamid alone, whatever digits its hash has", () => {
  fc.assert(
    fc.property(phone, fc.nat(), (number, salt) => {
      const wamid = `wamid.${Buffer.from(`\x1c\x18${number}\x15${salt}`).toString("base64url")}`;
      expect(maskText(`no ${wamid} here`)).toBe(`no ${maskId("wamid", wamid)} here`);
    }),
    { numRuns: 300 },
  );
});

test("does not change ordinary text", () => {
  const text =
    "the connection was closed before the answer was complete (UND_ERR_SOCKET) at Client.dispatch /srv/relay/client.js:123:45";
  expect(maskText(text)).toBe(text);
});

test("leaves times in free text, and no digits beside them", () => {
  const at = "moved at 2026-11-26T01:36:31.947Z; start it there";
  expect(maskText(at)).toBe(at);
  for (const text of [
    "2026-11-26T01:36:31.947Z5491155551234",
    "+2026-11-26T01:36:31.947Z",
    "5491155551234 2026-11-26T01:36:31.947Z",
  ])
    expect(maskText(text)).toContain("[phone]");
});

test("takes linear time for long text", () => {
  for (const text of [
    "1 ".repeat(200_000),
    "A".repeat(400_000),
    "wamid.".repeat(70_000),
    `1${" ".repeat(400_000)}`,
  ]) {
    const before = process.cpuUsage();
    maskText(text);
    // Processor time: a busy machine may stop the process for seconds.
    expect(process.cpuUsage(before).user).toBeLessThan(5_000_000);
  }
});

const hex = fc.stringMatching(/^[0-9a-f]{64}$/);

test("shows a signature and its time in a field that holds one", () => {
  fc.assert(
    fc.property(hex, (digest) => {
      const headers = {
        "x-hub-signature-256": `sha256=${digest}`,
        "stripe-signature": `t=1763800000,v1=${digest},v0=${digest}`,
        "x-hmac": digest.toUpperCase(),
        "webhook-timestamp": "1763800000",
        "webhook-signature": "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=",
      };
      expect(maskValue(headers, null)).toEqual(headers);
    }),
    { numRuns: 200 },
  );
});

test("masks a phone number in a field of signatures, and digits of a digest in any other field", () => {
  fc.assert(
    fc.property(phone, hex, phone.chain(hostileId), (number, digest, id) => {
      for (const text of [
        number,
        `sha256=${number}`,
        `${digest} ${number}`,
        `v1,${number},${digest}`,
        id,
      ]) {
        // Nothing tells such a number from a time.
        const isTime = /^1[6-9]\d{8}(?:\d{3})?$/.test(text);
        const shown = JSON.stringify(
          maskValue({ "x-signature": text, ...(isTime ? {} : { "x-timestamp": text }) }, null),
        );
        for (const trace of traces(number)) expect(shown).not.toContain(trace);
      }
    }),
    { numRuns: 300 },
  );
  const digest = `5491155551234${"a".repeat(51)}`;
  expect(maskValue({ note: digest }, null)).toEqual({ note: `[phone]${"a".repeat(51)}` });
});

test("masks a phone number among escaped blanks, of which a megabyte takes no minutes", () => {
  const blanks = "%20".repeat(400_000);
  expect(maskText(`1${blanks}`) === `1${blanks}`).toBe(true);
  expect(maskText("a%20%2B5491155550100%20b%205491155550100%28")).toBe(
    "a%20[phone]%20b%20[phone]%28",
  );
  expect(maskText("%20123%20123")).toBe("%20123%20123");
});

test("masks the texts of a body in an answer that repeats them, also hundreds of long ones without Latin letters", () => {
  const texts = Array.from(
    { length: 400 },
    (_, n) =>
      `${"é".repeat(40)}${"ب".repeat(40)} ${n} ${String.fromCodePoint(0x4e00 + n).repeat(8)}`,
  );
  const known = knownIn([texts.map((text) => ({ text })), { name: "Zoë", text: "!!!!" }]);
  for (const text of [texts[0], texts[399]])
    expect(maskText(`no "${text}" here!!!!`, known)).toBe('no "[text]" here!!!!');
  expect(maskText(`Zo\\u00eb, Zo%C3%AB; ${"é".repeat(4000)}`, known)).toBe(
    `[text], [text]; ${"é".repeat(4000)}`,
  );
});

test("leaves UUIDs in free text whole, and masks one with a possible phone number whole", () => {
  const plain = "a1998d3e-7c1a-4000-8000-00000000002a";
  expect(maskText(`no ${plain}, /v1/events/${plain}?x=${plain}`)).toBe(
    `no ${plain}, /v1/events/${plain}?x=${plain}`,
  );
  expect(maskText("event 54911555-1234-4000-8abc-deffffffffff")).toBe("event [uuid]");
  fc.assert(
    fc.property(fc.uuid(), phone, (id, number) => {
      const shown = maskText(`${id} ${number} (${id})`);
      expect(shown).toMatch(/^(?:[0-9a-f-]{36}|\[uuid\]) .* \((?:[0-9a-f-]{36}|\[uuid\])\)$/);
      for (const trace of traces(number)) expect(shown.replaceAll(id, "")).not.toContain(trace);
    }),
    { numRuns: 300 },
  );
});

test("shows a UUID in a body under a key for ids, whatever digits it has", () => {
  const body = {
    conversationId: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
    note: "7c9e6679-7425-40de-944b-e07fc1f90ae7",
  };
  expect(JSON.parse(maskBody(JSON.stringify(body), null))).toEqual({ ...body, note: "[uuid]" });
});

test("shows Unix times in a body under a key for times", () => {
  const body = {
    time: 1_795_813_190,
    statuses: [{ timestamp: "1795813190" }],
    expiration_timestamp: 1_795_813_190_123,
  };
  expect(JSON.parse(maskBody(JSON.stringify(body), null))).toEqual(body);
  expect(
    JSON.parse(
      maskBody('{"phone":"1795813190","timestamp":"16505551234","time":16505551234}', null),
    ),
  ).toEqual({
    phone: "[phone]",
    timestamp: "[phone]",
    time: "[phone]",
  });
});

test("shows the business numbers that no account has, and numbers in no other text", () => {
  const text = noAccountText(["206540352242922", "102290129340398"]);
  expect(maskText(text)).toBe(text);
  expect(maskText(`${text}.`)).toBe("no account has the number [phone] or [phone].");
});

test("shows the words of Meta that say what an update is about", () => {
  const value = { event: "FLAGGED", current_limit: "TIER_1K" };
  const body = {
    object: "whatsapp_business_account",
    entry: [{ changes: [{ field: "phone_number_quality_update", value }] }],
  };
  expect(JSON.parse(maskBody(JSON.stringify(body), null))).toEqual(body);
  expect(maskBody('{"custom_field":"diabetes","field":"Ana Pérez"}', null)).toBe(
    '{"custom_field":"[text, 8 characters]","field":"[text, 9 characters]"}',
  );
});
