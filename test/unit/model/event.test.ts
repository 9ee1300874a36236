import fc from "fast-check";
import { expect, test } from "vitest";
import { parseEnvelope } from "../../../src/model/envelope.ts";
import {
  fieldsSchema,
  type PolledStatus,
  polledEvent,
  polledEventId,
  subjectOf,
} from "../../../src/model/event.ts";
import type { EventId, Wamid } from "../../../src/model/ids.ts";

const learned: PolledStatus = {
  account: "main",
  source: "main",
  fields: fieldsSchema.parse({}),
  origin: "reconcile",
  messageId: "0199-1",
  wamid: "wamid.A" as Wamid,
  status: "failed",
  errorCode: 131026,
  at: Date.UTC(2026, 10, 21, 12),
};

test("reads texts that cannot be stored as lone surrogates are read: ids count as absent, and others have another character", () => {
  const read = (event: string, data: object) =>
    subjectOf(
      { id: "1" as EventId, event, createdAt: null, data: data as Record<string, unknown> },
      fieldsSchema.parse({}),
    );
  for (const [bad, shown] of [
    ["a\0", "a\ufffd"],
    ["a\ud800", "a\ufffd"],
  ]) {
    expect(read("message.status", { wamid: bad, status: "sent" })).toEqual({ type: "none" });
    expect(read("automation.failed", { runId: bad })).toEqual({ type: "none" });
    const message = { type: "message", wamid: "w", status: shown, errorCode: shown };
    expect(read("message.status", { wamid: "w", status: bad, errorCode: bad })).toEqual(message);
    expect(read("automation.failed", { runId: "r", error: bad })).toMatchObject({
      runId: "r",
      error: shown,
    });
  }
});

test("makes an event like the service's from a polled status, with the cause of the poll", () => {
  const event = polledEvent({ ...learned, origin: "hydrate", because: "evt-1" });
  expect(JSON.parse(event.body.toString("utf8"))).toEqual({
    id: event.envelope.id,
    event: "message.status",
    createdAt: "2026-11-21T12:00:00.000Z",
    data: { wamid: "wamid.A", status: "failed", errorCode: 131026 },
    relay: { origin: "hydrate", messageId: "0199-1", because: "evt-1" },
  });
  expect(event.subject).toEqual({
    type: "message",
    wamid: "wamid.A",
    status: "failed",
    errorCode: "131026",
  });
  expect(event.secret).toBeNull();
});

test("derives the id from account, message and status alone", () => {
  const id = polledEvent(learned).envelope.id;
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
  expect(
    polledEvent({ ...learned, origin: "hydrate", at: learned.at + 5, errorCode: null }).envelope.id,
  ).toBe(id);
  const others = [
    polledEventId("other", "0199-1", "failed"),
    polledEventId("main", "0199-2", "failed"),
    polledEventId("main", "0199-1", "read"),
  ];
  expect(new Set([id, ...others]).size).toBe(4);
});

test("puts the fields where the source reads them", () => {
  const segment = fc.constantFrom("a", "b", "status", "0", "__proto__", "constructor");
  const path = fc.array(segment, { minLength: 1, maxLength: 3 }).map((keys) => keys.join("."));
  fc.assert(
    fc.property(path, path, path, (wamid, status, errorCode) => {
      const all = [wamid, status, errorCode];
      // No event can satisfy a path inside another one, or the same path twice.
      fc.pre(
        all.every((one, at) =>
          all.every((other, place) => at === place || !`${other}.`.startsWith(`${one}.`)),
        ),
      );
      const fields = fieldsSchema.parse({
        wamid: [wamid],
        status: [status],
        errorCode: [errorCode],
      });
      const event = polledEvent({ ...learned, fields });
      const parsed = parseEnvelope(event.body);
      expect(parsed.ok && subjectOf(parsed.envelope, fields)).toEqual(event.subject);
      expect(event.subject).toEqual({
        type: "message",
        wamid: "wamid.A",
        status: "failed",
        errorCode: "131026",
      });
    }),
  );
});
