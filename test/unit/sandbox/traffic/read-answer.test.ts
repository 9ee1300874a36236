import { expect, test } from "vitest";
import { readAnswer } from "../../../../src/sandbox/traffic/answers.ts";

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
