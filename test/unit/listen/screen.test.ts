import { expect, test } from "vitest";
import {
  answerLine,
  createScreen,
  eventJson,
  eventLine,
  gapLine,
  helloLines,
  maskedEvent,
  waitingLine,
} from "../../../src/cli/listen/screen.ts";
import type { ListenedEvent } from "../../../src/cli/listen/wire.ts";

const event: ListenedEvent = {
  seq: 7,
  id: "e-7",
  event: "message.status",
  source: "main",
  account: "main",
  origin: "webhook",
  receivedAt: "2026-11-21T12:00:00.000Z",
  disposition: "filtered",
  status: "delivered",
  subject: { type: "message", key: "wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0" },
  tracked: false,
  headers: { "x-acme-signature": "sha256=00" },
  body: Buffer.from("{}"),
};

test("shows an event and its answer, with personal data masked by default", () => {
  expect(eventLine(maskedEvent(event), false)).toMatch(
    /^--> message\.status delivered \[e-7\] wamid:[0-9a-f]{12}$/,
  );
  expect(eventLine(event, true)).toBe(
    "--> message.status delivered [e-7] wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0 from main",
  );
  expect(eventLine({ ...event, status: null, subject: null, origin: "reconcile" }, false)).toBe(
    "--> message.status [e-7] (found by polling: reconcile)",
  );
  const taken = { taken: true, status: 200, error: null, tookMs: 11.6 };
  expect(answerLine(event, "http://localhost:3000/hook", taken, false)).toBe(
    "<-- [200] POST http://localhost:3000/hook [e-7] 12ms",
  );
  const down = { taken: false, status: null, error: "connection refused", tookMs: 1 };
  expect(answerLine(event, "http://localhost:3000/hook", down, true)).toBe(
    "<-- [---] POST http://localhost:3000/hook [e-7] failed: connection refused; it is posted again until it is taken",
  );
  expect(
    answerLine(
      event,
      "http://localhost:3000/hook",
      { ...down, error: "no connection (ECONNREFUSED)" },
      true,
    ),
  ).toBe(
    "<-- [---] POST http://localhost:3000/hook [e-7] failed: no connection (ECONNREFUSED); start your server: the event is posted again until it is taken",
  );
});

function screenOf(lines: string[]) {
  const print = (line: string) => void lines.push(line);
  return createScreen({
    io: {
      out: print,
      err: print,
      isTerminal: true,
      env: {},
      readStdin: async () => Buffer.alloc(0),
    },
    now: () => new Date(2026, 10, 28, 0, 5, 9).getTime(),
    isJson: false,
    showPii: false,
    showsSource: false,
    showsOldest: false,
    isForwarding: false,
    url: "https://relay.example",
  });
}

test("begins each line with the local time", () => {
  const lines: string[] = [];
  const screen = screenOf(lines);
  screen.hello({ relay: "1.0.0", after: 4, newest: 4, reset: false, keptFrom: null }, 4);
  screen.event(event, null);
  screen.gap({ from: 3, to: 9, count: 4 });
  expect(lines.map((line) => line.slice(0, 12))).toEqual([
    "00:05:09 lis",
    "00:05:09 -->",
    "00:05:09 !!!",
  ]);
});

test("masks the id of an event wherever it names it", () => {
  const lines: string[] = [];
  const screen = screenOf(lines);
  const named = { ...event, id: "order-5491155550100" };
  screen.event(named, null);
  screen.answer(
    named,
    "http://localhost",
    { taken: false, status: 400, error: null, tookMs: 1 },
    false,
  );
  screen.skipped(named);
  expect(lines).toHaveLength(3);
  for (const line of lines) expect(line).not.toContain("5491155550100");
});

test("JSON has headers and body only with --show-pii", () => {
  expect(eventJson(maskedEvent(event), false)).not.toHaveProperty("body");
  expect(JSON.stringify(eventJson(maskedEvent(event), false))).not.toContain("wamid.HBg");
  expect(eventJson(event, true)).toMatchObject({
    type: "event",
    body: "e30=",
    headers: event.headers,
  });
});

test("reports gaps, another store, a start before the oldest event, and why it reconnects", () => {
  expect(waitingLine("nothing listens there", 2_400)).toBe(
    "reconnecting in 3 s because nothing listens there",
  );
  expect(gapLine({ from: 3, to: 9, count: 1_234 })).toBe(
    "!!! retention deleted 1,234 events before they could be listened to (seq 3 to 9)",
  );
  const hello = {
    relay: "1.0.0",
    after: 4,
    newest: 16,
    reset: false,
    keptFrom: "2026-11-21T12:00:00.000Z",
  };
  const url = "https://relay.example";
  expect(helloLines(hello, url, false)).toEqual([
    "listening to https://relay.example (wamid-relay 1.0.0), 12 events behind",
  ]);
  expect(helloLines({ ...hello, reset: true }, url, false)[0]).toMatch(
    /^!!! the relay has another store/,
  );
  expect(helloLines(hello, url, true)[1]).toContain("2026-11-21T12:00:00.000Z");
});
