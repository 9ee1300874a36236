import { expect, test } from "vitest";
import { isSubscribed } from "../../../../src/sandbox/events/events.ts";

test.each([
  [["message.status"], "message.status", true],
  [["message.status"], "message.status.late", false],
  [["message.status"], "message", false],
  [["*"], "anything.at.all", true],
  [["message.*"], "message.status", true],
  [["message.*"], "message", false],
  [["message.*"], "messages.status", false],
  [["automation.failed", "message.*"], "automation.failed", true],
  [["automation.failed", "message.*"], "automation.completed", false],
  [[], "message.status", false],
])("%j takes %s: %s", (kinds, event, expected) =>
  expect(isSubscribed(kinds, event)).toBe(expected),
);
