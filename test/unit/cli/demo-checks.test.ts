import { describe, expect, test } from "vitest";
import { checkSums, createPostLog } from "../../../src/cli/demo/checks.ts";
import { summaryLines } from "../../../src/cli/demo/run.ts";
import { everythingPath } from "../../../src/cli/demo/settings.ts";
import type { Wamid } from "../../../src/model/ids.ts";
import type { Arrival } from "../../../src/sandbox/downstream.ts";
import { requestBody, type Update } from "../../../src/sandbox/meta/updates.ts";

const messages = "messages sent";
const stored = "events, each stored and delivered once";
const quarantined = "malformed ones, each quarantined alone";
const deliveries = "deliveries";
const lastStatus = "last status of each message, with its reference";

const number = { phoneNumberId: "106540352242922", phone: "+541155550000", isConnected: true };
const update = (status: string): Update => {
  const item = { id: "a/b", status, timestamp: "1767225600", recipient_id: "5491155551234" };
  return {
    field: "messages",
    list: "statuses",
    wabaId: "1",
    wamid: "a/b",
    number,
    contact: { wa_id: "5491155551234" },
    item,
  };
};
const wrong: Update = { ...(update("sent") as Update & { list: "statuses" }), item: 7 };
const metaBody = (...updates: Update[]) => Buffer.from(requestBody(updates));
const standardBody = (status: string) =>
  Buffer.from(
    JSON.stringify({ id: status, event: "message.status", data: { wamid: "a/b", status } }),
  );

/**
 * The body of one event, and the bodies that the service signs and posts: two statuses, and what is
 * none.
 */
const formats = {
  standard: {
    bodyOf: standardBody,
    posts: [standardBody("sent"), standardBody("read")],
    malformed: Buffer.from("{"),
  },
  meta: {
    bodyOf: (status: string) => metaBody(update(status)),
    posts: [metaBody(update("sent"), wrong, update("read"))],
    malformed: null,
  },
};
type Format = keyof typeof formats;

function arrival(
  path: string,
  deliveryId: string,
  body: Buffer,
  wamid: string | null = null,
): Arrival {
  return {
    number: 1,
    path,
    deliveryId,
    attempt: 1,
    eventId: null,
    wamid,
    answered: 200,
    signature: "valid",
    body,
  };
}

/** Each body posted twice, and what the downstream gets of it. */
function rightOutcome(format: Format) {
  const { bodyOf, posts, malformed } = formats[format];
  const log = createPostLog(format);
  for (const [n, body] of posts.entries()) {
    const post = { eventId: `r${n}`, body, sort: "event" as const, answered: 200 };
    for (const one of [{ ...post, sort: "wrongly-signed" as const, answered: 401 }, post, post])
      log.note(one);
  }
  if (malformed !== null)
    log.note({ eventId: "r", body: malformed, sort: "malformed", answered: 202 });
  return {
    format,
    planned: 1,
    sent: new Map([["a/b", "order-1"]]),
    messages: [
      { wamid: "a/b", origin: "api", status: "read" },
      { wamid: "c", origin: "customer", status: "received" },
    ] as { wamid: Wamid; origin: "api"; status: "read" | "delivered" }[],
    tracked: [{ wamid: "a/b", status: "read" as string | null, reference: "order-1" }],
    log,
    stats: {
      duplicates: 3,
      dispositions: { routed: 2, filtered: 0, ignored: 0, parked: 0, quarantined: 1 },
      deliveries: { waiting: 0, held: 0, delivered: 4, dead: 0 },
    },
    audit: { balanced: true, events: { received: 3 }, deliveries: { planned: 4 }, offenders: [] },
    arrivals: [
      arrival(everythingPath, "d1", bodyOf("sent")),
      arrival(everythingPath, "d2", bodyOf("read")),
      arrival("/statuses", "d3", Buffer.from("enriched"), "a/b"),
      arrival("/statuses", "d4", Buffer.from("enriched"), "a/b"),
    ],
  };
}
type Outcome = ReturnType<typeof rightOutcome>;

function mismatches({ arrivals, ...outcome }: Outcome): string[] {
  const counts = (path?: string) => {
    const here = arrivals.filter((one) => path === undefined || one.path === path).length;
    return {
      arrivals: here,
      taken: here,
      duplicates: 0,
      failed: 0,
      badSignatures: 0,
      withoutId: 0,
    };
  };
  const checks = checkSums({ ...outcome, downstream: { arrivals, counts } });
  expect(checks).toHaveLength(6);
  const found = checks.filter(({ ok }) => !ok).map(({ what }) => what);
  const text = summaryLines({ tookMs: 1, checks }).join("\n");
  for (const what of found) expect(text).toContain(`MISMATCH  ${what}`);
  return found;
}

const changeArrival = (index: number, to: Partial<Arrival>) => (one: Outcome) => {
  one.arrivals[index] = { ...(one.arrivals[index] as Arrival), ...to };
};
const dispositions = (routed: number, quarantinedToo: number) => (one: Outcome) => {
  one.stats.dispositions.routed += routed;
  one.stats.dispositions.quarantined += quarantinedToo;
};
const tracked = (to: Partial<Outcome["tracked"][number]>) => (one: Outcome) =>
  void Object.assign(one.tracked[0] as object, to);

type Row = readonly [what: string, change: (outcome: Outcome) => void, expected: readonly string[]];
const both: readonly Row[] = [
  ["a send without an answer", (one) => one.sent.clear(), [messages]],
  ["an event stored twice", dispositions(1, 0), [stored]],
  ["an event acknowledged and not stored", dispositions(-1, 0), [stored]],
  [
    "an event stored and not delivered",
    (one) => void one.arrivals.splice(0, 1),
    [stored, deliveries],
  ],
  [
    "an event that the service never posted",
    ({ log }) => void log.events.delete([...log.events.keys()][0] as string),
    [stored],
  ],
  [
    "one delivered in place of another",
    (one) => changeArrival(1, { body: (one.arrivals[0] as Arrival).body })(one),
    [stored],
  ],
  [
    "a body that was changed",
    (one) => changeArrival(0, { body: formats[one.format].bodyOf("failed") })(one),
    [stored],
  ],
  ["a bad signature", changeArrival(1, { signature: "invalid" }), [stored]],
  ["a good item quarantined", dispositions(0, 1), [quarantined]],
  ["a malformed one let through", dispositions(1, -1), [stored, quarantined]],
  ["a transition not delivered", (one) => void one.arrivals.splice(3, 1), [deliveries]],
  [
    "a transition delivered twice",
    (one) => void one.arrivals.push(one.arrivals[3] as Arrival),
    [deliveries],
  ],
  ["another reference", tracked({ reference: "order-2" }), [lastStatus]],
  ["another last status", tracked({ status: "delivered" }), [lastStatus]],
  ["a message without a status", tracked({ status: null }), [lastStatus]],
  ["an unknown message that has a status", (one) => void one.tracked.splice(0, 1), [lastStatus]],
  [
    "an audit that does not balance",
    (one) => void Object.assign(one.audit, { balanced: false }),
    ["audit of the relay"],
  ],
];
const asWritten = Buffer.from(formats.meta.bodyOf("sent").toString().replace("\\/", "/"));
const metaOnly: readonly Row[] = [
  ["slashes written in another way", changeArrival(0, { body: asWritten }), [stored]],
  [
    "two updates in one request",
    changeArrival(0, { body: metaBody(update("sent"), update("read")) }),
    [stored],
  ],
];

describe.each([
  { format: "standard", rows: both, counts: { posts: 7, refused: 2 } },
  { format: "meta", rows: [...both, ...metaOnly], counts: { posts: 3, refused: 1 } },
] as const)("a demo in the format $format", ({ format, rows, counts }) => {
  test("matches when nothing was lost, duplicated or changed", () => {
    const outcome = rightOutcome(format);
    expect(mismatches(outcome)).toEqual([]);
    expect(outcome.log.counts).toEqual(counts);
  });

  test.each(rows)("reports %s as a mismatch", (_what, change, expected) => {
    const outcome = rightOutcome(format);
    change(outcome);
    expect(mismatches(outcome)).toEqual(expected);
  });
});
