import { expect, test } from "vitest";
import { auditOf } from "../../harness/ask-relay.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { quarantine } from "../../harness/quarantine.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn } from "./run-cli.ts";

interface Shown {
  readonly seq: number;
  readonly disposition: string;
  readonly releasedAs: number | null;
  readonly releasedFrom: number | null;
}

const listed = async (relay: RelayHere, query = ""): Promise<Shown[]> =>
  ((await relay.ask(`/v1/events?limit=100${query}`)).body as { data: Shown[] }).data;

/** Bodies that a relay of before did not understand: valid by now, and stored as quarantined. */
async function quarantineValid(relay: RelayHere, count: number): Promise<Buffer[]> {
  const bodies = Array.from({ length: count }, (_, n) =>
    Buffer.from(
      `{ "id":"old-${n}", "event":"message.status", "createdAt":1800000000, "data":{"wamid":"wamid.${n}","status":"sent"} }`,
    ),
  );
  await quarantine(relay, bodies);
  return bodies;
}

test("counts first, releases what is now valid byte for byte, keeps the rest, and is safe to repeat", async () => {
  const downstream = await openDownstream();
  const relay = await startRelayHere({
    settings: { routes: [routeTo(downstream.url)], tracking: { unknown: "forward" } },
  });
  expect(
    (await postEvent(relay.webhookUrl, Buffer.from('{"object":"event","type":"charge.failed"}')))
      .status,
  ).toBe(202);
  expect((await runOn(relay, "events", "list")).out).toMatch(
    /quarantined +main +the body is an envelope of Stripe; the relay reads/,
  );
  const bodies = await quarantineValid(relay, 3);

  const dry = await runOn(relay, "replay", "--disposition", "quarantined", "--dry-run");
  expect(dry).toEqual({
    code: 0,
    out: "3 quarantined events can be released now\n",
    err: "note: 1 event left in quarantine: the body is an envelope of Stripe; the relay reads {id, event, createdAt, data}\n",
  });
  expect((await listed(relay, "&disposition=quarantined")).length).toBe(4);
  const unasked = await runOn(relay, "replay", "--disposition", "quarantined");
  expect([unasked.code, unasked.err]).toEqual([
    1,
    expect.stringContaining("3 quarantined events would be released"),
  ]);

  const [newest] = await listed(relay, "&disposition=quarantined");
  const ofOne = ["replay", "--disposition", "quarantined", "--event", String(newest?.seq)];
  expect((await runOn(relay, ...ofOne, "--dry-run")).out).toBe(
    "1 quarantined event can be released now\n",
  );
  const one = await runOn(relay, ...ofOne, "--yes");
  expect([one.code, one.out]).toEqual([0, "1 of 1 quarantined events were released\n"]);
  const rest = await runOn(relay, "replay", "--disposition", "quarantined", "--yes");
  expect([rest.code, rest.out]).toEqual([0, "2 of 2 quarantined events were released\n"]);
  const again = jsonOf<{ matching: number; replayed: number }>(
    await runOn(relay, "replay", "--disposition", "quarantined", "--yes", "--json"),
  );
  expect(again).toMatchObject({ matching: 0, replayed: 0, invalid: [{ events: 1 }] });

  await until("all are delivered", () => downstream.arrivals.length === 3);
  expect(downstream.arrivals.map(({ body }) => String(body)).sort()).toEqual(bodies.map(String));
  const released = await listed(relay, "&disposition=released");
  expect(released.length).toBe(3);
  for (const { seq, releasedAs } of released) {
    expect((await relay.ask(`/v1/events/${releasedAs}`)).body).toMatchObject({
      releasedFrom: seq,
      disposition: "routed",
      createdAt: "2027-01-15T08:00:00.000Z",
    });
  }
  expect(await auditOf(relay)).toMatchObject({
    balanced: true,
    events: { received: 7, routed: 3, released: 3, quarantined: 1, unaccounted: 0 },
  });
  const told = await runOn(relay, "explain", String(released[0]?.seq));
  expect(told.out).toMatch(/event \d+: not read/);
  expect(told.out).toContain(
    `released as event ${released[0]?.releasedAs}; until then: not understood in its time`,
  );
  const made = await runOn(relay, "explain", String(released[0]?.releasedAs));
  expect(made.out).toContain(`released from quarantine (event ${released[0]?.seq})`);
});

test("rejects criteria that do not apply", async () => {
  const relay = await startRelayHere();
  const replay = async (body: Record<string, unknown>) =>
    (await relay.ask("/v1/replay", { method: "POST", body })).body;
  expect(await replay({ disposition: "quarantined", route: "all" })).toMatchObject({
    code: "bad_request",
    error: expect.stringMatching(/^route: /),
  });
  expect(await replay({ disposition: "quarantined", errorCode: "1" })).toMatchObject({
    code: "bad_request",
  });
  expect(await replay({ source: "main" })).toMatchObject({
    code: "bad_request",
    error: expect.stringMatching(/^source: /),
  });
  expect(await replay({ event: 1, disposition: "ignored" })).toMatchObject({ code: "bad_request" });
  expect(await replay({ disposition: "quarantined", event: 1 })).toMatchObject({
    code: "not_found",
  });
});
