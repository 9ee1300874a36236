import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { statsOf } from "../../harness/ask-relay.ts";
import { openDownstream } from "../../harness/downstream.ts";
import { type Engine, engines, storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { jsonOf, runOn, runProcessOn, runRemote } from "./run-cli.ts";

interface Report {
  balanced: boolean;
  events: Record<string, number>;
  days: { day: string; source: string; received: number }[];
  deliveries: Record<string, number>;
  broken: Record<string, number>;
  offenders: { rule: string; event: number | null; eventId: string | null; route: string | null }[];
}

async function busyRelay(engine: Engine = "sqlite"): Promise<{ relay: RelayHere; ids: string[] }> {
  const downstream = await openDownstream();
  const storage = await storageOf(engine);
  const relay = await startRelayHere({
    settings: {
      ...storage,
      routes: [routeTo(downstream.url, { match: { events: ["message.*"] } })],
    },
  });
  const messages = createMessages("auditing");
  const ids: string[] = [];
  for (let each = 0; each < 5; each += 1) {
    const event = messages.event();
    ids.push(event.id);
    await postEvent(relay.webhookUrl, event);
    await postEvent(relay.webhookUrl, event);
  }
  await postEvent(relay.webhookUrl, Buffer.from('{"no":"envelope"}'));
  await until("all is delivered", async () => (await statsOf(relay)).deliveries.delivered === 5);
  return { relay, ids };
}

test.each(engines)(
  "on %s the sums match with a running relay, through its API and without it, and it exits with 0",
  async (engine) => {
    const { relay } = await busyRelay(engine);
    const day = new Date().toISOString().slice(0, 10);
    const { code, out, err } = await runProcessOn(relay, "audit");
    expect(code).toBe(0);
    // How far it is, on a machine that takes over two seconds for it; no complaint.
    expect(err).toMatch(/^(\d+% {2}.*\n)*$/);
    expect(out).toMatch(
      /^DAY \(UTC\) +SOURCE +RECEIVED +ROUTED +FILTERED +IGNORED +QUARANTINED +PARKED +RELEASED +UNASSIGNED +UNACCOUNTED +DUPLICATES +CONFLICTS\n/,
    );
    expect(out).toMatch(/\nall +6 +5 +0 +0 +1 +0 +0 +0 +0 +5 +0\n/);
    expect(out).toMatch(
      /\nthe sums match; 6 events, 5 deliveries and 5 attempts in .* events\/s\)\n$/,
    );
    const remote = jsonOf<Report>(
      await runRemote(relay, "audit", "--json", "--day", day, "--source", "main"),
    );
    expect(remote).toMatchObject({
      balanced: true,
      events: { received: 6, routed: 5, quarantined: 1, duplicates: 5 },
      deliveries: { planned: 5, delivered: 5 },
      broken: {},
    });
    expect(
      jsonOf<Report>(await runOn(relay, "audit", "--json", "--since", "1h")).events["received"],
    ).toBe(6);
    expect(
      jsonOf<Report>(await runOn(relay, "audit", "--json", "--day", "2020-01-01")).events[
        "received"
      ],
    ).toBe(0);
    expect((await runOn(relay, "audit", "--day", day, "--since", "1h")).code).toBe(2);
    await relay.stop();
    expect((await runOn(relay, "audit")).code).toBe(0);
  },
);

test("refuses a source that neither the settings nor the store have", async () => {
  const { relay } = await busyRelay();
  const unknown = {
    code: 1,
    out: "",
    err: 'wamid-relay: unknown source "mian" (did you mean main? there are: main)\n',
  };
  expect(await runOn(relay, "audit", "--source", "mian")).toEqual(unknown);
  expect(await runRemote(relay, "audit", "--source", "mian")).toEqual(unknown);
  expect((await runOn(relay, "audit", "--source", "main")).code).toBe(0);
  expect(
    await runRemote(relay, "replay", "--disposition", "quarantined", "--source", "mian"),
  ).toEqual(unknown);
  expect(
    await relay.ask("/v1/audit?from=2026-11-20T00:00:00Z&to=2026-11-19T00:00:00Z"),
  ).toMatchObject({ status: 400 });
  expect(await relay.ask("/v1/audit?source=mian")).toMatchObject({
    status: 404,
    body: { code: "not_found", details: ["main"] },
  });

  // A source that the settings had when its events came.
  await relay.stop();
  relay.writeSettings({ sources: {} });
  expect(
    jsonOf<Report>(await runOn(relay, "audit", "--source", "main", "--json")).events["received"],
  ).toBe(6);
});

test("names a deleted delivery with its event and route, and exits with 3", async () => {
  const { relay, ids } = await busyRelay();
  await relay.stop();
  const db = new Database(relay.storePath);
  db.exec("DELETE FROM attempts WHERE event = 2; DELETE FROM deliveries WHERE event = 2");
  db.exec("UPDATE events SET disposition = 1 WHERE seq = 4");
  db.close();
  const { code, out, err } = await runProcessOn(relay, "audit");
  expect(code).toBe(3);
  expect(out).toMatch(/\nall +6 +3 +0 +0 +1 +0 +0 +0 +2 +5 +0\n/);
  expect(out).toMatch(/\nthe sums do not match: 5 offences; /);
  expect(err).toContain(
    `delivery missing: event 2 (${ids[1]}): route everything: was to be delivered, and there is no delivery\n`,
  );
  expect(err).toContain(
    `wrong disposition: event 4 (${ids[3]}): is filtered; by the verdicts of its routes it is routed\n`,
  );
  expect(err).toContain("delivery missing: 1 in all\n");
  const { code: same, out: json } = await runOn(relay, "audit", "--json");
  expect(same).toBe(3);
  const report = JSON.parse(json) as Report;
  expect(
    report.offenders.map(({ rule, event, eventId, route }) => [rule, event, eventId, route]),
  ).toEqual([
    ["delivery missing", 2, ids[1], "everything"],
    ["wrong disposition", 4, ids[3], null],
    // The attempt, and the event in the old and in the new disposition.
    ...Array.from({ length: 3 }, () => ["history differs", null, null, null]),
  ]);
});

test("answers 202 with the progress of a running audit, and joins it when called again", async () => {
  const { relay } = await busyRelay();
  const first = await relay.ask("/v1/audit?wait=0");
  expect([200, 202]).toContain(first.status);
  const then = await relay.ask("/v1/audit?wait=20");
  expect([then.status, (then.body as Report).balanced]).toEqual([200, true]);
  expect((await relay.ask("/v1/audit?wait=no")).status).toBe(400);
});
