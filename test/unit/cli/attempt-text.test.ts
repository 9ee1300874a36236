import { expect, test } from "vitest";
import { responseText } from "../../../src/cli/event-report.ts";
import { privateView } from "../../../src/cli/output.ts";

test.each([
  ["the id that a stream gave the entry", { status: null, error: null, response: "1795350737879-0" }, "1795350737879-0"],
  ["a server that names a phone", { status: 200, error: null, response: "sent to +5491155550100" }, "sent to [phone]"],
  ["a Redis that did not take it, and names one", { status: null, error: "refused", response: "no 5491155550100" }, "no [phone]"],
  ["nothing", { status: null, error: null, response: null }, ""],
])("what was said to an attempt: %s", (_, attempt, shown) => {
  expect(responseText(attempt, privateView(undefined))).toBe(shown);
});
