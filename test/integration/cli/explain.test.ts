import { afterAll, beforeAll, expect, test } from "vitest";
import type { EventId } from "../../../src/model/ids.ts";
import { maskWamid, shownDeliveryId } from "../../../src/model/mask.ts";
import { type Downstream, startDownstream } from "../../../src/sandbox/downstream.ts";
import { statsOf } from "../../harness/ask-relay.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { makeRelayHere, type RelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn, runProcessOn, runRemote } from "./run-cli.ts";

interface Explained {
  data: {
    message: { wamid: string; reference: string | null } | null;
    events: {
      seq: number;
      id: string;
      routes: unknown[];
      deliveries: { route: string; attemptHistory: unknown[]; next: Record<string, unknown> }[];
    }[];
    next: number | null;
  }[];
}

let relay: RelayHere;
let downstream: Downstream;
const messages = createMessages("explaining");
const wamid = messages.wamid();
const other = messages.wamid();
const sent = messages.status(wamid, "sent");
const delivered = messages.status(wamid, "delivered");
const failed = messages.status(wamid, "failed");
const stranger = messages.status(messages.wamid(), "sent");

const serviceId = "01a20760-931b-7000-b861-a1ae76befc30";

beforeAll(async () => {
  downstream = await startDownstream();
  relay = await makeRelayHere({
    settings: {
      tracking: { unknown: "park", parkFor: "1h" },
      routes: [
        routeTo(`${downstream.url}/ours`, {
          name: "ours",
          match: { tracked: true },
          to: { retry: { schedule: ["0s"] } },
        }),
        routeTo(`${downstream.url}/down`, {
          name: "down",
          match: { statuses: ["sent", "delivered"] },
          to: { retry: { schedule: ["0s", "1h"], jitter: 0 } },
        }),
      ],
    },
  });
  downstream.fail({ status: 500 }, "/down");
  await relay.start();
  await postEvent(relay.webhookUrl, sent);
  for (const each of [wamid, other]) {
    await relay.ask("/v1/messages/track", {
      method: "POST",
      // The id has digits that look like a phone number.
      body: {
        account: "main",
        wamid: each,
        id: each === wamid ? serviceId : undefined,
        reference: "order-7",
        metadata: { phone: "+5491123456789" },
      },
    });
  }
  await postEvent(relay.webhookUrl, delivered);
  await postEvent(relay.webhookUrl, delivered);
  await postEvent(relay.webhookUrl, failed);
  await postEvent(relay.webhookUrl, stranger);
  await until("what can be is settled", async () => {
    const { deliveries, attempts } = await statsOf(relay);
    return deliveries.delivered === 3 && attempts.failed >= 2;
  });
});
afterAll(async () => {
  await relay.dispose();
  await downstream.close();
});

test("shows a message's events in order of time, with each route's reason, each attempt, and the next step", async () => {
  const { code, out, err } = await runProcessOn(relay, "explain", wamid);
  expect([code, err]).toEqual([0, ""]);
  expect(out).not.toContain(wamid);
  expect(out).not.toContain("5491123456789");
  expect(out).toContain(`message ${maskWamid(wamid)} of account main`);
  const places = [
    `event 1: message.status, ${sent.id}`,
    "received    webhook of source main, verified by secret ",
    "status      unknown → sent (a transition)",
    "delivery to down: waiting",
    "answered 500 in ",
    "next: attempt ",
    "delivery to ours: delivered",
    "1. ",
    "registered\n",
    `with        reference order-7, id ${serviceId}, `,
    `event 2: message.status, ${delivered.id}`,
    "duplicates  1",
    "delivery to down: held",
    "next: held until the delivery of event 1 ends",
    `event 3: message.status, ${failed.id}`,
    "status      stays delivered, although failed was reported (no transition)",
    "down: did not match: it takes other statuses",
  ];
  let at = -1;
  for (const place of places) {
    const found = out.indexOf(place, at + 1);
    expect([place, found > at]).toEqual([place, true]);
    at = found;
  }
});

test("--show-pii shows masked values", async () => {
  const { out } = await runOn(relay, "explain", wamid, "--show-pii");
  expect(out).toContain(wamid);
  expect(out).toContain("+5491123456789");
  const json = await runOn(relay, "explain", wamid, "--json");
  expect(json.out).not.toContain(wamid);
  expect(json.out).not.toContain("5491123456789");
});

test("finds by event id, seq and a reference of two messages, also from another machine", async () => {
  const byId = jsonOf<Explained>(await runOn(relay, "explain", delivered.id, "--json"));
  expect(byId.data.map(({ events }) => events.map(({ seq }) => seq))).toEqual([[2]]);
  expect(
    jsonOf<Explained>(await runRemote(relay, "explain", "2", "--as", "event", "--json")),
  ).toEqual(byId);
  const both = jsonOf<Explained>(
    await runRemote(relay, "explain", "order-7", "--json", "--show-pii"),
  );
  expect(both.data.map(({ message, events }) => [message?.wamid, events.length])).toEqual([
    [other, 0],
    [wamid, 3],
  ]);
  const { out } = await runOn(relay, "explain", "order-7");
  expect(out).toContain("events      none");
});

test("finds by the id of a delivery, as the log and the lists show it", async () => {
  // The log masks an id that is no UUID.
  await postEvent(relay.webhookUrl, {
    ...messages.status(messages.wamid(), "sent"),
    id: "evt-1" as EventId,
  });
  const list = await runOn(relay, "deliveries", "list", "--route", "down", "--json", "--show-pii");
  const ids = jsonOf<{ data: { id: string }[] }>(list).data.map(({ id }) => id);
  const seqsOf = async (name: string) =>
    jsonOf<Explained>(await runOn(relay, "explain", name, "--json")).data.map(({ events }) =>
      events.map(({ seq }) => seq),
    );
  expect(await seqsOf(ids.at(-1) as string)).toEqual([[1]]);
  expect(await seqsOf(ids[0] as string)).toEqual([[5]]);
  expect(await seqsOf(shownDeliveryId(ids[0] as string))).toEqual([[5]]);
});

test("shows until when an event is parked, and how to get the next page", async () => {
  const { out } = await runOn(relay, "explain", stranger.id);
  expect(out).toMatch(
    /disposition routed, parked until .*: released when it is registered by then/,
  );
  expect(out).toContain("ours: waits for the registration of the message");
  const first = await runOn(relay, "explain", wamid, "--limit", "2");
  expect(first.err).toBe("there are later events: --after 2, or a greater --limit\n");
  const rest = jsonOf<Explained>(
    await runOn(relay, "explain", wamid, "--after", "2", "--json", "--account", "main"),
  );
  expect(rest.data.map(({ events, next }) => [events.map(({ seq }) => seq), next])).toEqual([
    [[3], null],
  ]);
});

test("prints one line for an unknown name, and exits with 1", async () => {
  expect(await runOn(relay, "explain", "nothing")).toEqual({
    code: 1,
    out: "",
    err: expect.stringMatching(
      /^wamid-relay: not found: .*; "wamid-relay events list" lists the events, and its --query .*\n$/,
    ),
  });
  expect((await runOn(relay, "explain", wamid, "--account", "other")).code).toBe(1);
});
