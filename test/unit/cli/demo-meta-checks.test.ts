import { expect, test } from "vitest";
import { checkSums, createPostLog } from "../../../src/cli/demo/checks.ts";
import { everythingPath } from "../../../src/cli/demo/settings.ts";
import type { Wamid } from "../../../src/model/ids.ts";
import type { Arrival } from "../../../src/sandbox/downstream/arrivals.ts";
import { requestBody } from "../../../src/sandbox/meta/request-body.ts";
import type { Update } from "../../../src/sandbox/meta/update.ts";

const lastStatus = "last status of each message, with its reference";
const stored = "events, each stored and delivered once";

const number = { phoneNumberId: "106540352242922", phone: "+541155550000", isConnected: true };
const statusOf = (wamid: string, status: string): Update => {
  const item = { id: wamid, status, timestamp: "1767225600", recipient_id: "5491155551234" };
  return { field: "messages", list: "statuses", wabaId: "1", wamid, number, contact: { wa_id: "5491155551234" }, item };
};
const bytes = (...updates: Update[]) => Buffer.from(requestBody(updates));
const wrong: Update = { ...(statusOf("x", "sent") as Update & { list: "statuses" }), item: 7 };

function arrival(path: string, deliveryId: string, body: Buffer, wamid: string | null = null): Arrival {
  return { number: 1, path, deliveryId, attempt: 1, eventId: null, wamid, answered: 200, signature: "valid", body };
}

/** One request with two statuses and a wrong item, posted twice, and what the downstream gets of it. */
function rightOutcome() {
  const log = createPostLog("meta");
  const body = bytes(statusOf("a/b", "sent"), wrong, statusOf("a/b", "read"));
  const post = { eventId: "r1", body, sort: "event" as const, answered: 200 };
  log.note({ ...post, sort: "wrongly-signed", answered: 401 });
  log.note(post);
  log.note(post);
  const arrivals = [
    arrival(everythingPath, "d1", bytes(statusOf("a/b", "sent"))),
    arrival(everythingPath, "d2", bytes(statusOf("a/b", "read"))),
    arrival("/statuses", "d3", Buffer.from("enriched"), "a/b"),
    arrival("/statuses", "d4", Buffer.from("enriched"), "a/b"),
  ];
  return {
    format: "meta" as const,
    planned: 1,
    sent: new Map([["a/b", "order-1"]]),
    messages: [
      { wamid: "a/b", origin: "api", status: "read" },
      { wamid: "c", origin: "customer", status: "received" },
    ] as { wamid: Wamid; origin: "api"; status: "read" | "delivered" }[],
    tracked: [{ wamid: "a/b", status: "read", reference: "order-1" }],
    log,
    stats: {
      duplicates: 3,
      dispositions: { routed: 2, filtered: 0, ignored: 0, parked: 0, quarantined: 1 },
      deliveries: { waiting: 0, held: 0, delivered: 4, dead: 0 },
    },
    audit: { balanced: true, events: { received: 3 }, deliveries: { planned: 4 }, offenders: [] },
    arrivals,
  };
}

function mismatches({ arrivals, ...outcome }: ReturnType<typeof rightOutcome>): string[] {
  const counts = (path?: string) => {
    const here = arrivals.filter((one) => path === undefined || one.path === path).length;
    return { arrivals: here, taken: here, duplicates: 0, failed: 0, badSignatures: 0, withoutId: 0 };
  };
  const checks = checkSums({ ...outcome, downstream: { arrivals, counts } });
  expect(checks).toHaveLength(6);
  return checks.filter(({ ok }) => !ok).map(({ what }) => what);
}

test("all sums match when nothing was lost, duplicated or changed", () => {
  const outcome = rightOutcome();
  expect(mismatches(outcome)).toEqual([]);
  expect(outcome.log.counts).toEqual({ posts: 3, refused: 1 });
});

test.each<[string, (outcome: ReturnType<typeof rightOutcome>) => void, readonly string[]]>([
  ["a send without an answer", (one) => one.sent.clear(), ["messages sent"]],
  ["another reference", (one) => one.sent.set("a/b", "order-2"), [lastStatus]],
  [
    "an update stored twice",
    (one) => {
      one.stats.dispositions.routed += 1;
    },
    [stored],
  ],
  [
    "one update delivered in place of another",
    (one) => {
      one.arrivals[1] = { ...(one.arrivals[0] as Arrival), deliveryId: "d2" };
    },
    [stored],
  ],
  [
    "a good item quarantined",
    (one) => {
      one.stats.dispositions.quarantined += 1;
    },
    ["malformed ones, each quarantined alone"],
  ],
  [
    "a delivery that the relay does not know",
    (one) => {
      one.stats.deliveries.delivered -= 1;
    },
    ["deliveries"],
  ],
  [
    "another last status",
    (one) => void one.messages.splice(0, 1, { wamid: "a/b" as Wamid, origin: "api", status: "delivered" }),
    [lastStatus],
  ],
  [
    "a bad signature",
    (one) => {
      one.arrivals[1] = { ...(one.arrivals[1] as Arrival), signature: "invalid" };
    },
    [stored],
  ],
  [
    "slashes written in another way",
    (one) => {
      one.arrivals[0] = arrival(everythingPath, "d1", Buffer.from(bytes(statusOf("a/b", "sent")).toString().replace("\\/", "/")));
    },
    [stored],
  ],
  [
    "two updates in one request",
    (one) => {
      one.arrivals[0] = arrival(everythingPath, "d1", bytes(statusOf("a/b", "sent"), statusOf("a/b", "read")));
    },
    [stored],
  ],
])("%s is a mismatch", (_what, change, expected) => {
  const outcome = rightOutcome();
  change(outcome);
  expect(mismatches(outcome)).toEqual(expected);
});
