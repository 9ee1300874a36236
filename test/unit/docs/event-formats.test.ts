import { expect, test } from "vitest";
import { compose } from "../../../src/deliver/attempt.ts";
import type { StoredDelivery } from "../../../src/model/delivery.ts";
import { isTruncated, parseEnvelope } from "../../../src/model/envelope.ts";
import { formats } from "../../../src/model/formats/formats.ts";
import { codeBlocks, readPage } from "../../harness/pages.ts";

const page = readPage("docs/reference/event-formats.md");
const [received = "", enriched = "", truncated = "", request = "", standard = ""] = codeBlocks(
  page,
  "json",
);

test("the envelopes of docs/reference/event-formats.md are valid, the second one truncated", () => {
  const envelopes = [received, truncated].map((text) => parseEnvelope(Buffer.from(text)));
  expect(envelopes.map((read) => (read.ok ? isTruncated(read.envelope) : read.error))).toEqual([
    false,
    true,
  ]);
});

test("the enriched example is what the relay makes of the first one", () => {
  const delivery = {
    account: "main",
    route: "crm",
    source: "main",
    origin: "webhook",
    kind: "message.status",
    eventId: "01998d3e-7c1a-7000-8000-000000000001",
    receivedAt: Date.parse("2026-11-21T12:00:00.412Z"),
    attempts: 0,
    replays: 0,
    body: Buffer.from(received),
    headers: {},
    subject: {
      type: "message",
      tracked: true,
      id: "m1",
      reference: "order-17",
      metadata: { team: "support" },
      previousStatus: "sent",
      moved: true,
    },
  } as unknown as StoredDelivery;
  const { body } = compose(delivery, "enriched", false);
  expect(JSON.parse(enriched)).toEqual(JSON.parse(body.toString("utf8")));
});

test("the envelope of Meta's example is what the relay makes of the request before it", () => {
  const [item, ...others] = formats.meta.items(Buffer.from(request), {
    source: "wa",
    fields: settingsFields,
  });
  if (item?.content.ok !== true) throw new Error("the request is no event");
  expect(others).toEqual([]);
  const { id: eventId, event: kind } = item.content.envelope;
  const delivery = {
    account: "main",
    route: "crm",
    format: "meta",
    eventId,
    kind,
    body: item.body,
    headers: {},
    attempts: 0,
  };
  const { body } = compose(delivery as unknown as StoredDelivery, "standard", false);
  expect(JSON.parse(standard)).toEqual(JSON.parse(body.toString("utf8")));
});

const settingsFields = { wamid: [], status: [], errorCode: [], runId: [], error: [] };

test("the table of Meta's data names what the items of each kind have", () => {
  const item = { id: "wamid.1", timestamp: "1750263773" };
  const change = (field: string, value: object) => ({
    field,
    value: { metadata: { phone_number_id: "1" }, ...value },
  });
  const errors = [{ code: 1, title: "a", error_data: { details: "b" } }];
  const of = (field: string, value: object) => {
    const body = Buffer.from(
      JSON.stringify({
        object: "whatsapp_business_account",
        entry: [{ id: "2", changes: [change(field, value)] }],
      }),
    );
    const [{ content } = { content: { ok: false as const, error: "" } }] = formats.meta.items(
      body,
      {
        source: "wa",
        fields: settingsFields,
      },
    );
    if (!content.ok) throw new Error(content.error);
    return { kind: content.envelope.event, names: Object.keys(content.envelope.data) };
  };
  const status = {
    ...item,
    status: "failed",
    recipient_id: "3",
    recipient_participant_id: "4",
    conversation: { id: "5" },
    biz_opaque_callback_data: "6",
    errors,
  };
  const message = { ...item, type: "text", from: "3", to: "4", group_id: "5" };
  const all = [
    of("messages", { statuses: [status] }),
    of("messages", { messages: [message] }),
    of("calls", { calls: [{ ...item, event: "connect" }] }),
    of("messages", { errors }),
    of("flows", {}),
  ];
  const [table = ""] = page.slice(page.indexOf("| events | have in `data`")).split("\n\n");
  const rows = table.split("\n").map((row) => row.split("|"));
  for (const { kind, names } of all) {
    const own =
      rows.find(([, cell = ""]) =>
        cell.includes(`\`${kind.startsWith("call.") ? "call.*" : kind}\``),
      ) ?? rows.at(-1);
    for (const name of names) expect(`${rows[2]?.[2]} ${own?.[2]}`, kind).toContain(`\`${name}\``);
  }
});
