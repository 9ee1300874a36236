import { describe, expect, test } from "vitest";
import { checkSums, createPostLog } from "../../../src/cli/demo/checks.ts";
import { summaryLines } from "../../../src/cli/demo/run.ts";
import { type DemoFormat, everythingPath, statusesPath } from "../../../src/cli/demo/settings.ts";
import type { Wamid } from "../../../src/model/ids.ts";
import type { Arrival } from "../../../src/sandbox/downstream/arrivals.ts";
import { requestBody } from "../../../src/sandbox/meta/request-body.ts";
import type { Update } from "../../../src/sandbox/meta/update.ts";

const messages = "messages sent";
const stored = "events, each stored and delivered once";
const quarantined = "malformed ones, each quarantined alone";
const deliveries = "deliveries";
const lastStatus = "last status of each message, with its reference";
const faults = "faults at the downstream";

const event = (id: string, data: object) =>
  Buffer.from(JSON.stringify({ id, event: "message.status", createdAt: "2026-11-21T00:00:00.000Z", data }));

const number = { phoneNumberId: "106540352242922", phone: "+541155550000", isConnected: true };
const update = (status: string, item: unknown = { id: "a/b", status, timestamp: "1767225600", recipient_id: "5491155551234" }) =>
  ({ field: "messages", list: "statuses", wabaId: "1", wamid: "a/b", number, contact: { wa_id: "5491155551234" }, item }) as Update;
const request = (...updates: Update[]) => Buffer.from(requestBody(updates));

function arrival(path: string, deliveryId: string, body: Buffer, eventId: string | null, wamid: string | null = "a/b"): Arrival {
  return { number: 1, path, deliveryId, attempt: 1, eventId, wamid, answered: 200, signature: "valid", body };
}

const transition = (eventId: string, status: string) =>
  arrival(
    statusesPath,
    `${eventId} transition`,
    Buffer.from(JSON.stringify({ data: { wamid: "a/b", status }, relay: { message: { reference: "order-1" } } })),
    eventId,
  );

/** What is posted: statuses of one message, and one of another, which comes truncated. Then what is stored of it. */
const bodiesOf: Record<DemoFormat, () => { posted: [string, Buffer][]; got: Buffer[] }> = {
  standard() {
    const got = [
      event("e1", { wamid: "a/b", status: "sent" }),
      event("e2", { wamid: "a/b", status: "read" }),
      event("e3", { truncated: true, id: null, size: 9 }),
    ];
    return { posted: got.map((body, n) => [`e${n + 1}`, body]), got };
  },
  meta: () => ({
    posted: [["r1", request(update("sent"), update("", 7), update("read"))]],
    got: [request(update("sent")), request(update("read"))],
  }),
};

/** A run without faults, in which everything was posted twice. */
function rightOutcome(format: DemoFormat) {
  const log = createPostLog(format);
  const { posted, got } = bodiesOf[format]();
  for (const [n, [eventId, body]] of posted.entries()) {
    const post = { url: "http://relay", eventId, body, sort: "event" as const, answered: 200, began: 2 * n, ended: 2 * n + 1 };
    log.note({ ...post, sort: "wrongly-signed", answered: 401 });
    log.note(post);
    log.note(post);
    if (format === "standard" && n === 0) log.note({ ...post, sort: "malformed", answered: 202, body: Buffer.from("{") });
  }
  const arrivals = got.map((body, n) => arrival(everythingPath, `d${n}`, body, format === "standard" ? `e${n + 1}` : null));
  arrivals.push(transition("e1", "sent"), transition("e2", "read"));
  const service = (wamid: string, origin: "api" | "customer", status: string) => ({ wamid: wamid as Wamid, origin, status });
  return {
    format,
    planned: 2,
    sent: new Map([
      ["a/b", "order-1"],
      ["b", "order-2"],
    ]),
    service: {
      messages: [
        service("a/b", "api", "read"),
        service("b", "api", format === "standard" ? "sent" : "pending"),
        service("c", "customer", "received"),
      ],
      events: [{ id: "e3", wamid: "b" }],
    },
    log,
    stats: {
      duplicates: 3,
      dispositions: { routed: got.length, filtered: 0, ignored: 0, parked: 0, quarantined: 1 },
      deliveries: { waiting: 0, held: 0, delivered: arrivals.length, dead: 0 },
    },
    audit: { balanced: true, events: { received: 3 }, deliveries: { planned: 4 }, offenders: [] },
    arrivals,
    badSignatures: 0,
  };
}

type Outcome = ReturnType<typeof rightOutcome>;

function mismatches({ arrivals: arrived, badSignatures, ...outcome }: Outcome): string[] {
  const arrivals = arrived.map((one, n) => ({ ...one, number: n + 1 }));
  const counts = (path?: string) => {
    const here = arrivals.filter((one) => path === undefined || one.path === path).length;
    return { arrivals: here, taken: here, duplicates: 0, failed: 0, badSignatures, withoutId: 0 };
  };
  const checks = checkSums({ ...outcome, downstream: { arrivals, counts } } as Parameters<typeof checkSums>[0]);
  const wrong = checks.filter(({ ok }) => !ok).map(({ what }) => what);
  const text = summaryLines({ tookMs: 1, checks }).join("\n");
  for (const what of wrong) expect(text).toContain(`MISMATCH  ${what}`);
  if (wrong.length > 0) expect(text).toContain(`${wrong.length} of ${checks.length}`);
  return wrong;
}

const change = (one: Outcome, at: number, to: Partial<Arrival>) =>
  void one.arrivals.splice(at, 1, { ...(one.arrivals.at(at) as Arrival), ...to });

const planted: readonly (readonly [what: string, plant: (one: Outcome) => unknown, found: string[]])[] = [
  ["a send without an answer", (one) => one.sent.delete("b"), [messages]],
  ["another reference", (one) => one.sent.set("a/b", "order-2"), [faults]],
  ["an event stored twice", (one) => (one.stats.dispositions.routed += 1), [stored]],
  ["an event that was not delivered", (one) => one.arrivals.shift(), [stored, deliveries]],
  ["one event delivered in place of another", (one) => change(one, 1, { ...one.arrivals[0], deliveryId: "d1" }), [stored]],
  ["an event that was never posted", (one) => one.log.events.delete([...one.log.events.keys()][1] ?? ""), [stored, faults]],
  [
    "a malformed one let through",
    ({ stats: { dispositions } }) => Object.assign(dispositions, { quarantined: 0, routed: dispositions.routed + 1 }),
    [stored, quarantined],
  ],
  ["a delivery that the relay does not know", (one) => (one.stats.deliveries.delivered -= 1), [deliveries]],
  ["a last status that was not reported", (one) => one.arrivals.pop(), [deliveries, lastStatus]],
  ["another last status", (one) => one.arrivals.splice(-1, 1, { ...transition("e2", "delivered"), deliveryId: "x" }), [lastStatus]],
  ["statuses in another order", (one) => one.arrivals.push(...one.arrivals.splice(-2, 1)), [lastStatus, faults]],
  ["a bad signature", (one) => (one.badSignatures = 1), [faults]],
  ["a changed body", (one) => change(one, 0, { body: Buffer.from(String(one.arrivals[0]?.body).replaceAll(",", ", ")) }), [faults]],
  ["an audit that does not balance", (one) => (one.audit.balanced = false), ["audit of the relay"]],
];

describe.each(["standard", "meta"] as const)("the demo with format %s", (format) => {
  test("all sums match when nothing was lost, duplicated or changed", () => {
    const outcome = rightOutcome(format);
    expect(mismatches(outcome)).toEqual([]);
    expect(outcome.log.counts.refused).toBe(bodiesOf[format]().posted.length);
  });

  test.each(planted)("%s is a mismatch", (_what, plant, found) => {
    const outcome = rightOutcome(format);
    plant(outcome);
    expect(mismatches(outcome)).toEqual(found);
  });
});

test("an event that overtook its message's earlier one is a mismatch", () => {
  const outcome = rightOutcome("standard");
  outcome.arrivals.unshift(...outcome.arrivals.splice(1, 1));
  expect(mismatches(outcome)).toEqual([faults]);
});
