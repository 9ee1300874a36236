import { expect, test } from "vitest";
import type { Io } from "../../../src/cli/io.ts";
import {
  answerLine,
  createKeys,
  createScreen,
  eventJson,
  eventLine,
  gapLine,
  helloLines,
  type KeyActions,
  type StatusView,
  stateText,
  statusLine,
} from "../../../src/cli/listen/screen.ts";
import type { ListenedEvent } from "../../../src/cli/listen/wire.ts";
import { privateView } from "../../../src/cli/output.ts";

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
const masked = privateView(false);

test("shows an event and its answer, with personal data masked by default", () => {
  expect(eventLine(event, masked, false)).toMatch(/^--> message\.status delivered \[e-7\] wamid:[0-9a-f]{12}$/);
  expect(eventLine(event, privateView(true), true)).toBe(
    "--> message.status delivered [e-7] wamid.HBgNNTQ5MTE1NTU1MDAwMRUCABEYEkQ0 from main",
  );
  expect(eventLine({ ...event, status: null, subject: null, origin: "reconcile" }, masked, false)).toBe(
    "--> message.status [e-7] (found by polling: reconcile)",
  );
  const taken = { taken: true, status: 200, error: null, tookMs: 11.6 };
  expect(answerLine(event, "http://localhost:3000/hook", taken, { again: false, replay: false, keys: true })).toBe(
    "<-- [200] POST http://localhost:3000/hook [e-7] 12ms",
  );
  const down = { taken: false, status: null, error: "connection refused", tookMs: 1 };
  expect(answerLine(event, "http://localhost:3000/hook", down, { again: true, replay: false, keys: true })).toBe(
    "<-- [---] POST http://localhost:3000/hook [e-7] failed: connection refused; trying until it is taken (s skips it, r tries now)",
  );
  // What comes from outside does not reach the terminal as what it could do there.
  expect(eventLine({ ...event, event: "a\x1b[2Jb" }, masked, false)).toContain("a\\u001b[2Jb");
});

test("JSON has headers and body only with --show-pii", () => {
  expect(eventJson(event, masked)).not.toHaveProperty("body");
  expect(JSON.stringify(eventJson(event, masked))).not.toContain("wamid.HBg");
  expect(eventJson(event, privateView(true))).toMatchObject({ type: "event", body: "e30=", headers: event.headers });
});

test("reports gaps, another store, and a start before the oldest event", () => {
  expect(gapLine({ from: 3, to: 9, count: 1_234 })).toBe(
    "!!! 1,234 events are gone: retention deleted them before they could be listened to (seq 3 to 9)",
  );
  const hello = { relay: "1.0.0", after: 4, newest: 16, reset: false, keptFrom: "2026-11-21T12:00:00.000Z" };
  const place = { url: "https://relay.example", since: null };
  expect(helloLines(hello, place)).toEqual(["listening to https://relay.example (wamid-relay 1.0.0), 12 events behind"]);
  expect(helloLines({ ...hello, reset: true }, place)[0]).toMatch(/^!!! the relay has another store/);
  expect(helloLines(hello, { ...place, since: Date.parse("2026-11-01T00:00:00Z") })[1]).toContain("2026-11-21T12:00:00.000Z");
  expect(helloLines(hello, { ...place, since: Date.parse("2026-11-21T13:00:00Z") }).length).toBe(1);
});

test("the status line shows connection, lag and counts, and never wraps", () => {
  const view: StatusView = {
    state: { is: "live" },
    behind: 3,
    came: 12,
    taken: 9,
    skipped: 1,
    failures: 0,
    isPaused: false,
    filter: null,
    typing: null,
  };
  expect(statusLine(view, 200)).toBe("live, behind 3  |  12 in, 9 taken, 1 skipped  |  p pause  f filter  r replay  q quit");
  expect(statusLine({ ...view, isPaused: true, failures: 4, filter: "message.*" }, 200)).toContain(
    "paused, live, behind 3  |  12 in, 9 taken, 1 skipped  |  waiting for the local server (4 failed)  s skip  |  events message.*",
  );
  expect(statusLine({ ...view, typing: "mess" }, 200)).toBe("events (empty: all): mess");
  expect(stateText({ is: "waiting", why: "nothing listens there", ms: 2_400 }, 3)).toBe(
    "reconnecting in 3 s because nothing listens there",
  );
  for (const columns of [4, 20, 60]) expect(statusLine(view, columns).length).toBeLessThan(columns);
});

test("on a terminal the last line is drawn over; in a pipe there is none", () => {
  const printed: string[] = [];
  const io: Io = {
    out: (line) => void printed.push(line),
    err: (line) => void printed.push(`err ${line}`),
    isTerminal: true,
    env: {},
    readStdin: async () => Buffer.alloc(0),
  };
  const terminal = createScreen(io, { isInteractive: true, status: () => "live" });
  terminal.drawStatus();
  terminal.line("--> a");
  terminal.note("lost");
  expect(printed).toEqual(["live", "\x1b[1A\x1b[0J--> a", "live", "\x1b[1A\x1b[0Jlost", "live"]);
  terminal.end();
  terminal.drawStatus();
  expect(printed.length).toBe(5);
  printed.length = 0;
  const pipe = createScreen(io, { isInteractive: false, status: () => "live" });
  pipe.drawStatus();
  pipe.line("--> a");
  pipe.note("lost");
  pipe.json({ text: "\u202e\u0085" });
  expect(printed).toEqual(["--> a", "err lost", '{"text":"\\u202e\\u0085"}']);
});

test("keys: what each does, a filter typed and corrected, one given up", () => {
  const done: string[] = [];
  const action = (name: string) => () => void done.push(name);
  const actions: KeyActions = {
    replay: action("replay"),
    pause: action("pause"),
    skip: action("skip"),
    quit: action("quit"),
    filter: (text) => void done.push(`filter ${text}`),
    typing: (text) => void done.push(`typing ${text}`),
  };
  const press = createKeys(actions);
  press("rpsqx");
  expect(done.splice(0)).toEqual(["replay", "pause", "skip", "quit"]);
  press("f");
  press("mq");
  press("\x7f");
  press("r\r");
  expect(done.splice(0)).toEqual(["typing ", "typing m", "typing mq", "typing m", "typing mr", "typing null", "filter mr"]);
  press("fa\x1br");
  expect(done.splice(0)).toEqual(["typing ", "typing a", "typing null", "replay"]);
  press("f\x03");
  expect(done.splice(0)).toEqual(["typing ", "quit"]);
});
