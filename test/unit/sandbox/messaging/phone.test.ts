import { expect, test } from "vitest";
import { parsePhone } from "../../../../src/sandbox/messaging/lives.ts";

test.each([
  ["+5491155550100", "+5491155550100"],
  ["+54 9 (11) 5555-0100", "+5491155550100"],
  ["+54.911.55550100 ", "+5491155550100"],
  [" +5491155550100", null],
  ["(+54) 91155550100", null],
  ["5491155550100", null],
  ["+0491155550100", null],
  ["+54 9 11 phone", null],
  ["+54+91122331234", null],
  ["+12345", "+12345"],
  ["+1234", null],
  [`+${"5".repeat(31)}`, `+${"5".repeat(31)}`],
  [`+${"1".repeat(32)}`, null],
])("%j is read as %s", (text, phone) => {
  expect(parsePhone(text)).toBe(phone);
});
