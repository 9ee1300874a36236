import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { compose } from "../../../src/deliver/compose.ts";
import type { StoredDelivery } from "../../../src/model/delivery.ts";
import { isTruncated, parseEnvelopeText } from "../../../src/model/envelope.ts";

const page = readFileSync(new URL("../../../docs/reference/event-formats.md", import.meta.url), "utf8");
const [received = "", enriched = "", truncated = ""] = [...page.matchAll(/^```json\n(.*?)^```/gms)].map(([, text = ""]) => text);

test("the envelopes of docs/reference/event-formats.md are valid, the second one truncated", () => {
  const envelopes = [received, truncated].map(parseEnvelopeText);
  expect(envelopes.map((read) => (read.ok ? isTruncated(read.envelope) : read.error))).toEqual([false, true]);
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
