import { expect, test } from "vitest";
import { z } from "zod";
import { reconciledSchema } from "../../../src/model/answers/accounts.ts";
import { deliverySchema } from "../../../src/model/answers/events.ts";
import { messageSchema } from "../../../src/model/answers/subjects.ts";
import { knownIn } from "../../../src/model/mask.ts";
import { foreign, maskAnswer, toAnswer } from "../../../src/model/view.ts";

const delivery = {
  id: "dlv_1",
  event: 1,
  eventId: "e",
  route: "crm",
  state: "waiting" as const,
  attempts: 0,
  replays: 0,
  nextAt: 0,
  settledAt: null,
  reason: null,
  cause: null,
};

test("writes times as ISO 8601 and leaves the rest as it is", () => {
  expect(toAnswer(deliverySchema, delivery)).toEqual({
    ...delivery,
    nextAt: "1970-01-01T00:00:00.000Z",
  });
  const message = {
    account: "main",
    wamid: "w",
    phone: null,
    id: null,
    conversationId: null,
    reference: null,
    metadata: { sentAt: 5, list: [1, { at: 2 }], __proto__: { at: 3 } },
    status: "sent",
    errorCode: null,
    times: { sent: 1_000, delivered: 2_000 },
    sentAt: null,
    registeredAt: 3_000,
    updatedAt: 4_000,
  };
  expect(toAnswer(messageSchema, message)).toEqual({
    ...message,
    times: { sent: "1970-01-01T00:00:01.000Z", delivered: "1970-01-01T00:00:02.000Z" },
    registeredAt: "1970-01-01T00:00:03.000Z",
    updatedAt: "1970-01-01T00:00:04.000Z",
  });
});

test("a masked answer shows keys and references that are UUIDs, whatever digits they have", () => {
  const key = "54911555-1234-4000-8abc-deffffffffff";
  const sent = { idempotencyKey: key, reference: key, status: `for 5491155550100, order ${key}` };
  const shown = maskAnswer(
    z.object({ idempotencyKey: foreign, reference: foreign, status: foreign }),
    sent,
  );
  expect(shown).toEqual({ ...sent, status: "for [phone], order [uuid]" });
});

test("a reference is shown although the events of its message have it", () => {
  const known = knownIn([{ data: { reference: "order-7", name: "Ana" } }]);
  const message = messageSchema.pick({ reference: true });
  const shown = { reference: "order-7" };
  expect(maskAnswer(message, shown, known)).toEqual(shown);
  expect(maskAnswer(z.object({ error: foreign }), { error: "order-7: Ana" }, known)).toEqual({
    error: "[text]: [text]",
  });
});

test("an answer has the fields of its schema alone, and an optional field only where the view has it", () => {
  const extended = { ...delivery, internal: "secret" };
  expect(toAnswer(deliverySchema, extended)).not.toHaveProperty("internal");
  const counts = {
    polled: 0,
    changed: 0,
    unchanged: 0,
    missing: 0,
    failed: 0,
    postponed: 0,
    unpollable: 0,
  };
  const stops = [
    { reason: "quota", until: 1_000 } as const,
    { reason: "refused", until: null, detail: "answered 400" } as const,
  ];
  const accounts = stops.map((stopped) => ({
    account: "main",
    ...counts,
    stopped,
    lastsUntil: null,
  }));
  expect(
    toAnswer(reconciledSchema, { dueBy: 0, more: false, accounts }).accounts.map(
      ({ stopped }) => stopped,
    ),
  ).toEqual([
    { reason: "quota", until: "1970-01-01T00:00:01.000Z" },
    { reason: "refused", until: null, detail: "answered 400" },
  ]);
});
