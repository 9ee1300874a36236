import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { isCandidate, isRead, registeredFrom, startOf } from "../../../src/hydrate/candidates.ts";
import { hydrateSchema } from "../../../src/hydrate/settings.ts";
import type { TrackedMessage } from "../../../src/model/hydration.ts";

const settings = hydrateSchema.parse({});
const hour = 3_600_000;
const now = 1_800_000_000_000;
const covered = { events: 2, oldest: now - 1_000, newest: now };

function aMessage(parts: Partial<TrackedMessage> = {}): TrackedMessage {
  return {
    message: 1,
    messageId: "id",
    status: "sent",
    registeredAt: now - hour,
    sentAt: null,
    changedAt: now - hour,
    readAt: null,
    ...parts,
  };
}

describe("the initial state of a hydration", () => {
  test.each([
    [
      "a status",
      { event: "message.status", hasSubject: false, hasKey: true },
      { state: "waiting" },
    ],
    [
      "a message event of unknown kind",
      { event: "message.edited", hasSubject: false, hasKey: true },
      { state: "waiting" },
    ],
    [
      "one that names its message",
      { event: "message.status", hasSubject: true, hasKey: true },
      null,
    ],
    [
      "without a key",
      { event: "message.status", hasSubject: false, hasKey: false },
      { state: "given-up", reason: "no-key" },
    ],
    [
      "an automation",
      { event: "automation.completed", hasSubject: false, hasKey: true },
      { state: "given-up", reason: "not-readable" },
    ],
    [
      "an automation that names its run",
      { event: "automation.failed", hasSubject: true, hasKey: false },
      null,
    ],
    [
      "anything else",
      { event: "contact.created", hasSubject: false, hasKey: true },
      { state: "given-up", reason: "not-readable" },
    ],
  ])("%s", (_, event, start) => {
    expect(startOf(event)).toEqual(start);
  });
});

describe("candidates", () => {
  test.each([
    ["without a status", { status: null }, true],
    ["pending for days", { status: "pending", changedAt: now - 60 * hour }, true],
    ["sent", {}, true],
    ["of an unknown status word", { status: "queued" }, true],
    ["read", { status: "read", changedAt: now }, false],
    ["received", { status: "received" }, false],
    ["delivered lately", { status: "delivered", changedAt: now - 5 * hour }, true],
    ["delivered long ago", { status: "delivered", changedAt: now - 7 * hour }, false],
    ["failed lately", { status: "failed", changedAt: now - 5 * hour }, true],
    ["failed long ago", { status: "failed", changedAt: now - 7 * hour }, false],
    ["sent before the events", { sentAt: now - 1 }, true],
    ["sent a little after, by another clock", { sentAt: now + 60_000 }, true],
    ["sent well after the events", { sentAt: now + hour }, false],
    ["without the service's id, which counts as unknown", { messageId: null }, true],
  ] as const)("%s", (_, parts, expected) => {
    expect(isCandidate(aMessage(parts), covered, settings)).toBe(expected);
  });

  test("are those registered within reach of the first event", () => {
    expect(registeredFrom(covered, settings)).toBe(covered.oldest - 72 * hour);
  });

  test("a read before the last event arrived does not count", () => {
    expect(
      [null, now - 1, now, now + 1].map((readAt) => isRead(aMessage({ readAt }), covered)),
    ).toEqual([false, false, true, true]);
  });

  test("a candidate of some events is a candidate of more events", () => {
    const at = fc.integer({ min: now - 100 * hour, max: now + 2 * hour });
    const messages = fc.record({
      status: fc.constantFrom(null, "pending", "sent", "delivered", "failed", "read"),
      changedAt: at,
      sentAt: fc.option(at),
    });
    const range = fc.tuple(at, fc.nat({ max: hour }), fc.nat({ max: hour }), fc.nat({ max: hour }));
    fc.assert(
      fc.property(messages, range, (parts, [oldest, length, earlier, later]) => {
        const message = aMessage(parts);
        const some = { events: 1, oldest, newest: oldest + length };
        const more = { events: 2, oldest: oldest - earlier, newest: some.newest + later };
        expect(!isCandidate(message, some, settings) || isCandidate(message, more, settings)).toBe(
          true,
        );
      }),
    );
  });
});
