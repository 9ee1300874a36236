import { execFileSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import type { RelayStory } from "../../../src/client/relay-client.ts";
import {
  addRows,
  emptyTail,
  showWaiting,
  type TailRows,
} from "../../../src/console/events/tail.ts";
import { curlOfBody, hydrationText, prettyJson } from "../../../src/console/events/words.ts";
import { barsOf, stepsOf } from "../../../src/console/messages/steps.ts";
import { attemptText, nextStepText, verdictText } from "../../../src/model/words.ts";

const at = (seconds: number): string =>
  new Date(Date.UTC(2026, 10, 21, 12) + seconds * 1_000).toISOString();

describe("the steps of a message", () => {
  const event = (fields: object) =>
    ({ transition: false, origin: "webhook", ...fields }) as RelayStory["events"][number];

  test("come in the order of time, with the origin of the event that moved the message", () => {
    const events = [
      event({ seq: 3, status: "delivered" }),
      event({ seq: 4, status: "delivered", transition: true, origin: "reconcile" }),
      event({ seq: 2, status: "sent", transition: true }),
    ];
    expect(stepsOf({ read: at(9), delivered: at(4), sent: at(1) }, events)).toEqual([
      { status: "sent", at: at(1), origin: "webhook", event: 2 },
      { status: "delivered", at: at(4), origin: "reconcile", event: 4 },
      { status: "read", at: at(9), origin: null, event: null },
    ]);
  });

  test("begin with the registered time when it is the earliest", () => {
    const pending = { status: "pending", at: at(0), origin: "registration", event: null };
    expect(stepsOf({ sent: at(1) }, [], at(0))[0]).toEqual(pending);
    expect(stepsOf({ sent: at(1) }, [], at(2))).toHaveLength(1);
    expect(stepsOf({}, [], at(0))).toEqual([pending]);
  });

  test.each(["pending", "started"])(
    "begin with %s, also when a webhook overtook the answer of the service",
    (beginning) => {
      const steps = stepsOf({ failed: at(1), [beginning]: at(2) }, [
        event({ seq: 1, status: "failed", transition: true }),
      ]);
      expect(steps).toMatchObject([
        { status: beginning, at: at(1) },
        { status: "failed", at: at(1) },
      ]);
    },
  );
});

describe("the scale of a timeline", () => {
  const steps = [{ at: at(0) }, { at: at(1) }, { at: at(10) }];

  test("is proportional to time", () => {
    expect(barsOf(steps)).toEqual([
      { from: 0, to: 0.1, sinceMs: null },
      { from: 0.1, to: 1, sinceMs: 1_000 },
      { from: 1, to: 1, sinceMs: 9_000 },
    ]);
  });

  test("lasts until now while another step is expected", () => {
    expect(barsOf(steps, Date.parse(at(20))).at(-1)).toEqual({ from: 0.5, to: 1, sinceMs: 9_000 });
  });

  test("ends at the last step when that is after this clock's now", () => {
    expect(barsOf(steps, Date.parse(at(5))).at(-1)).toEqual({ from: 1, to: 1, sinceMs: 9_000 });
  });

  test("holds without steps and with steps of one moment", () => {
    expect(barsOf([])).toEqual([]);
    expect(barsOf([{ at: at(0) }, { at: at(0) }])).toEqual([
      { from: 0, to: 0, sinceMs: null },
      { from: 0, to: 0, sinceMs: 0 },
    ]);
  });
});

describe("words", () => {
  test.each([
    [{ verdict: "deliver" }, "matched every criterion"],
    [{ verdict: "park" }, "waits for the registration of the message"],
    [{ verdict: "skip", reason: "status" }, "did not match: it takes other statuses"],
    [
      { verdict: "skip", reason: "where: data.a eq" },
      "did not match: its condition “where: data.a eq” does not hold",
    ],
    [
      { verdict: "skip", reason: "constructor" },
      "did not match: its condition “constructor” does not hold",
    ],
    [{ verdict: "skip", reason: "hydrated" }, "received the changes that hydration found instead"],
  ])("of a verdict %o", (verdict, text) => {
    expect(verdictText({ route: "crm", ...verdict }, null)).toBe(text);
  });

  test("of a truncated event, which names no message, that is held", () => {
    const hydration = { state: "waiting" } as Parameters<typeof verdictText>[1];
    const text = "waits for the hydration of the event";
    expect(verdictText({ route: "crm", verdict: "park" }, hydration)).toBe(text);
  });

  test("of what a delivery waits for", () => {
    const next = { at: null, behind: null, ahead: 0, reason: null };
    expect(nextStepText({ ...next, kind: "breaker" })).toContain("one delivery tries first");
    expect(nextStepText({ ...next, kind: "held", behind: 7, ahead: 2 })).toBe(
      "held until the delivery of event 7 ends, then behind 2 more",
    );
    expect(nextStepText({ ...next, kind: "done" })).toBeNull();
  });

  test.each([
    [null, null, "accepted"],
    [503, null, "answered 503"],
    [null, "timeout", "no answer: timeout"],
    [null, "full", "not accepted: full"],
  ])("of an attempt with status %s and error %s", (status, error, text) => {
    expect(attemptText(status, error)).toBe(text);
  });

  test("of a hydration that was given up", () => {
    const hydration = {
      state: "given-up",
      reason: "no-key",
      polled: 0,
      found: [],
      foundCount: 0,
      unknown: null,
      settledAt: null,
    } as const;
    expect(hydrationText({ ...hydration, found: [] })).toBe(
      "The service truncated this event. The relay gave up, because the account has no base URL or API key: 0 messages polled, 0 changes found.",
    );
  });
});

describe("the command that posts a body", () => {
  /**
   * What the command would post: the argument of `--data-binary`, which curl takes as a file after
   * an `@`.
   */
  const curl =
    'curl() { shift $(($# - 2)); case $1 in @-) cat;; @*) exit 1;; *) printf %s "$1";; esac; }';
  const run = (command: string): Buffer => execFileSync("sh", ["-c", `${curl}\n${command}`]);

  test.each([
    "{}",
    `it's "$HOME" \`id\` \\n !`,
    "@/etc/passwd",
    '<script>\u202e{"a":\n1}',
    "a\u0000b\u001b[31m",
  ])("posts exactly %j", (text) => {
    const body = Buffer.from(text).toString("base64");
    expect(
      run(curlOfBody({ headers: { "x-acme-signature": "it's" }, body, text })).toString(),
    ).toBe(text);
  });

  test("posts bytes that are not UTF-8", () => {
    const bytes = Buffer.from([0xff, 0x00, 0x80]);
    expect(run(curlOfBody({ headers: {}, body: bytes.toString("base64"), text: null }))).toEqual(
      bytes,
    );
  });
});

test("indents JSON only", () => {
  expect(prettyJson('{"a":[1]}')).toBe('{\n  "a": [\n    1\n  ]\n}');
  expect(prettyJson("{")).toBeNull();
  expect(prettyJson(null)).toBeNull();
});

describe("the live tail", () => {
  test("puts new rows on top", () => {
    const rows = addRows(addRows(emptyTail as TailRows<number>, [1, 2], 0, false), [3], 4, false);
    expect(rows).toEqual({ shown: [3, 2, 1], waiting: [], skipped: 4 });
  });

  test("keeps the shown rows while somebody reads, and shows all later", () => {
    const held = addRows({ shown: [2, 1], waiting: [3], skipped: 0 }, [4, 5], 0, true);
    expect(held).toEqual({ shown: [2, 1], waiting: [5, 4, 3], skipped: 0 });
    expect(showWaiting(held)).toEqual({ shown: [5, 4, 3, 2, 1], waiting: [], skipped: 0 });
  });

  test("counts the rows that it drops while somebody reads", () => {
    const many = Array.from({ length: 700 }, (_, index) => index);
    const held = addRows({ shown: [], waiting: [], skipped: 1 }, many, 2, true);
    expect([held.waiting.length, held.waiting[0], held.skipped]).toEqual([100, 699, 603]);
  });
});
