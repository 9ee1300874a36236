import { expect, test } from "vitest";
import { type Answer, shownAnswer } from "../../../src/cli/answers.ts";
import { eventLines } from "../../../src/cli/event-report.ts";
import { privacyOf } from "../../../src/cli/output.ts";

const phone = "+5491155551234";
const wamid = "wamid.HBgNNTQ5MTE1NTU1MTIzNBUCABEYEkQ0";
const name = "Ximena Quiroga";
const planted = `${wamid} of ${phone}`;
const at = "2026-11-21T12:00:00.000Z";

const attempt = { number: 1, at, tookMs: 3, status: 500, error: planted, response: planted };
const detail: Answer<"eventDetail"> = {
  id: wamid,
  seq: 7,
  event: "message.status",
  source: "main",
  account: "main",
  origin: "webhook",
  secret: null,
  receivedAt: at,
  createdAt: at,
  size: 2,
  duplicates: 0,
  conflicts: 0,
  disposition: "routed",
  fault: planted,
  parkedUntil: null,
  releasedAs: null,
  releasedFrom: null,
  status: planted,
  previousStatus: planted,
  transition: true,
  errorCode: planted,
  subject: { type: "message", key: wamid },
  headers: { "webhook-id": wamid, [phone]: planted },
  body: Buffer.from(JSON.stringify({ wamid, phone, name })).toString("base64"),
  text: JSON.stringify({ wamid, phone, name }),
  hydration: null,
  routes: [{ route: "crm", verdict: "skip", reason: planted }],
  deliveries: [
    {
      id: "dlv_1",
      event: 7,
      eventId: wamid,
      route: "crm",
      state: "dead",
      attempts: 1,
      replays: 0,
      nextAt: null,
      settledAt: at,
      reason: planted,
      cause: "500",
      attemptHistory: [attempt],
    },
  ],
};

const hidden = privacyOf(false);

test("without --show-pii an event has no wamid, phone or name, as JSON or as lines", () => {
  const shown = shownAnswer("eventDetail", detail, hidden);
  const text = [JSON.stringify(shown), Buffer.from(shown.body, "base64").toString("utf8"), eventLines(shown, true).join("\n")].join("\n");
  for (const each of [wamid, phone, phone.slice(1), name]) expect(text).not.toContain(each);
  // Not because it is empty.
  expect(text).toContain("[phone]");
  expect(text).toContain("[text, 14 characters]");
});

test("with --show-pii, or masked by the relay, it stays as it is", () => {
  expect(shownAnswer("eventDetail", detail, privacyOf(true))).toBe(detail);
  expect(shownAnswer("eventDetail", detail, privacyOf(false, { isMasked: () => true }))).toBe(detail);
});

test("a retry does not print what a destination wrote", () => {
  const retried = { id: "dlv_1", route: "crm", state: "waiting", previousState: "dead", stopped: planted, pausedUntil: null };
  expect(shownAnswer("retried", retried, hidden).stopped).toBe("wamid:f3051fb2ac4c of [phone]");
});

test("ids that commands take stay, unless they have a phone number", () => {
  const retried = { route: "crm", state: "waiting", previousState: "dead", stopped: null, pausedUntil: null };
  const id = "dlv_01998d3e7c1a7000800000000000002a_3c7a1014837c";
  expect(shownAnswer("retried", { ...retried, id }, hidden).id).toBe(id);
});

test.each([
  ["the id that a stream gave the entry", { status: null, error: null, response: "1795350737879-0" }, "1795350737879-0"],
  ["a server that names a phone", { status: 200, error: null, response: "sent to +5491155550100" }, "sent to [phone]"],
  ["a Redis that did not take it, and names one", { status: null, error: "refused", response: "no 5491155550100" }, "no [phone]"],
  ["nothing", { status: null, error: null, response: null }, null],
])("what was said to an attempt: %s", (_, said, shown) => {
  const [delivery] = detail.deliveries;
  const event = { ...detail, deliveries: delivery === undefined ? [] : [{ ...delivery, attemptHistory: [{ ...attempt, ...said }] }] };
  expect(shownAnswer("eventDetail", event, hidden).deliveries[0]?.attemptHistory[0]?.response).toBe(shown);
});
