import { expect, test } from "vitest";
import type { EventId } from "../../../../src/model/ids.ts";
import { type Answer, type Post, type PostResult, readAnswer } from "../../../../src/sandbox/traffic/post-result.ts";
import { createAcknowledgements } from "../../../../src/sandbox/traffic/sender.ts";
import { unexpectedOfEvents, unexpectedOfPost } from "../../../harness/expected-answers.ts";

const id = "e1" as EventId;
const subject = { id, event: "message.status", wamid: null, runId: null, ours: true };
const body = Buffer.from("{}");
const event: Post = { sort: "status", body, signature: "right", subject, expected: { of: "event", id } };
const answered = (answer: Answer | null, tries = 1, status = 200): PostResult => ({ kind: "answered", status, answer, tries, tookMs: 1 });
const unanswered: PostResult = { kind: "unanswered", error: "ECONNRESET", tries: 3, tookMs: 1 };

function acknowledged(...notes: [PostResult, number, number][]) {
  const record = createAcknowledgements();
  for (const [result, from, to] of notes) record.note(event, result, from, to);
  const known = record.byEvent.get(id);
  if (known === undefined) throw new Error("nothing was recorded");
  return { known, faults: unexpectedOfEvents(record.byEvent) };
}

test("one accepted and the rest duplicate is as it should be; the accepted post bounds the time", () => {
  const { known, faults } = acknowledged([answered("duplicate"), 1, 6], [answered("accepted"), 2, 7], [answered("duplicate"), 8, 9]);
  expect(faults).toEqual([]);
  expect(known).toEqual({ accepted: 1, duplicate: 2, refused: 0, retried: false, after: 2, before: 6 });
});

test("accepted twice is a fault", () => {
  expect(acknowledged([answered("accepted"), 1, 2], [answered("accepted"), 3, 4]).faults).toEqual(["event e1: accepted 2 times"]);
});

test("never accepted is a fault, unless a lost answer may have been the one", () => {
  expect(acknowledged([answered("duplicate"), 1, 2]).faults).toEqual(["event e1: duplicate 1 times and never accepted"]);
  const { known, faults } = acknowledged([answered("duplicate", 2), 1, 5]);
  expect(faults).toEqual([]);
  expect(known).toMatchObject({ after: 1, before: 5 });
});

test("no 2xx is a fault, and the event may have been accepted any time after it was first posted", () => {
  const { known, faults } = acknowledged([unanswered, 3, 9]);
  expect(faults).toEqual(["event e1: 1 posts without a 2xx"]);
  expect(known).toMatchObject({ after: 3, before: Number.POSITIVE_INFINITY });
});

test("what is no event is judged by itself, and is not in the record", () => {
  const forged: Post = { ...event, sort: "wrongly-signed", signature: "wrong", expected: { of: "post", answer: "unauthorized" } };
  expect(unexpectedOfPost(forged, answered("unauthorized", 1, 401))).toBeNull();
  expect(unexpectedOfPost(forged, answered("accepted"))).toBe("wrongly-signed: unauthorized expected, got accepted");
  expect(unexpectedOfPost(forged, answered(null, 1, 500))).toBe("wrongly-signed: unauthorized expected, got 500");
  expect(unexpectedOfPost(forged, unanswered)).toBe("wrongly-signed: unauthorized expected, no answer (ECONNRESET)");
  const record = createAcknowledgements();
  record.note(forged, answered("unauthorized", 1, 401), 0, 1);
  expect(record.byEvent.size).toBe(0);
});

test.each([
  [200, '{"status":"accepted"}', "accepted"],
  [200, '{"status":"duplicate"}', "duplicate"],
  [202, '{"status":"quarantined","error":"x"}', "quarantined"],
  [401, "", "unauthorized"],
  [429, "", "unauthorized"],
  [200, '{"status":"quarantined"}', null],
  [202, '{"status":"accepted"}', null],
  [200, "ok", null],
  [200, "null", null],
  [404, '{"status":"accepted"}', null],
])("an answer %i %s is read as %s", (status, text, answer) => {
  expect(readAnswer(status, text)).toBe(answer);
});
