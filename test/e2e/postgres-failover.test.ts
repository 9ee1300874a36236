// @module-tag slow: it promotes standbys of PostgreSQL under load.
import { expect, test } from "vitest";
import { openNetwork } from "../harness/network.ts";
import { openSession } from "../harness/postgres-session.ts";
import { runHere } from "../harness/run-here.ts";
import { until } from "../harness/until.ts";
import { startListen } from "../integration/listen/listener.ts";
import { type Postgres, startPostgres } from "../setup/postgres.ts";
import { startGround } from "./postgres-ground.ts";

/** The standby answers for the disk. */
const settings = { synchronous_commit: "on" };

const urlAt = (port: number) => `postgres://relay@127.0.0.1:${port}/postgres`;

async function promote({ url }: Postgres): Promise<void> {
  await using session = await openSession(url);
  await session.rows("SELECT pg_promote(true, 100)");
}

test("a failover to a synchronous standby loses nothing, plans nothing twice and keeps the order", async () => {
  await using primary = await startPostgres({ tcp: true, settings });
  await using standby = await startPostgres({ tcp: true, settings, standbyOf: primary });
  const network = await openNetwork(primary.port);
  await using session = await openSession(primary.url);
  await session.rows("ALTER SYSTEM SET synchronous_standby_names = '*'");
  await session.rows("SELECT pg_reload_conf()");
  await until("commits wait for the standby", async () => {
    return (
      (await session.number(
        "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'",
      )) === 1
    );
  });
  const ground = await startGround(urlAt(network.port));
  await ground.answered();

  await primary.kill("SIGKILL");
  await promote(standby);
  network.lead(standby.port);
  await ground.acceptedAgain();

  await ground.answered();
  await ground.expectAccounted();
});

test("a failover to an asynchronous standby: listeners get each event of the new primary", async () => {
  await using primary = await startPostgres({ tcp: true, durable: true });
  const link = await openNetwork(primary.port);
  const primaryOfStandby = {
    ...settings,
    primary_conninfo: `host=127.0.0.1 port=${link.port} user=relay`,
  };
  await using standby = await startPostgres({
    tcp: true,
    settings: primaryOfStandby,
    standbyOf: primary,
  });
  const network = await openNetwork(primary.port);
  const ground = await startGround(urlAt(network.port));
  const [receiver] = ground.receivers;
  if (receiver === undefined) throw new Error("no receiver");
  const listener = startListen(receiver.relay.url, ["--json"]);
  await listener.live();
  await ground.answered();
  const { out } = await runHere(["doctor", "--config", receiver.relay.settingsPath, "--offline"], {
    PROCESS: "test",
  });
  expect(out).toContain("asynchronous");

  // A lease that is lost with the last commits ends at the next heartbeat of its holder, which may
  // send until then.
  await until("the routes are shared out", async () => {
    const holders = [...(await ground.holders()).values()];
    return holders.length === 4 && new Set(holders).size === 2;
  });
  link.cut();
  const kept = new Set(ground.load.accepted.keys());
  // A sequence is logged 32 numbers ahead: after fewer, none would be given again.
  await ground.answered(120);
  const unreplicated = [...ground.load.accepted.keys()].at(-1);
  await until("the listener has an event that the standby has not", () =>
    listener.said("event").some(({ id }) => id === unreplicated),
  );
  await primary.kill("SIGKILL");
  await promote(standby);
  const before = Date.now();
  const ids = new Set([...ground.load.accepted.keys()].filter((id) => !kept.has(id)));
  network.lead(standby.port);
  await ground.acceptedAgain();

  await ground.answered();
  await ground.load.stop();
  await using session = await openSession(standby.url);
  const stored = await session.rows<{ id: string; seq: number }>(
    "SELECT encode(id, 'hex')::uuid::text AS id, seq::float8 AS seq FROM relay.events WHERE id IS NOT NULL ORDER BY seq",
  );
  const last = stored.at(-1)?.seq;
  await until("the listener has the last event", () =>
    listener.said("event").some(({ seq }) => seq === last),
  );
  const heard = listener.said("event");
  const lost = heard.filter(({ id }) => !stored.some((one) => one.id === id));
  expect(lost.length, "nothing was lost, so the test shows nothing").toBeGreaterThan(0);
  const from = Math.min(...heard.map(({ seq }) => Number(seq)));
  const got = new Set(heard.map(({ id }) => id));
  expect(stored.filter(({ id, seq }) => seq >= from && !got.has(id))).toEqual([]);
  const idsOf = Map.groupBy(heard, ({ seq }) => seq);
  expect([...idsOf].filter(([, events]) => new Set(events.map(({ id }) => id)).size > 1)).toEqual(
    [],
  );
  await ground.expectAccounted({ lost: { before, ids } });
});
