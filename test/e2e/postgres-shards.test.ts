// @module-tag slow: the shards of a killed worker move after ten seconds.
import { expect, test } from "vitest";
import { createRandom } from "../../src/sandbox/ids.ts";
import { auditOf } from "../harness/ask-relay.ts";
import { openFlakyDownstream } from "../harness/flaky-downstream.ts";
import { openSession } from "../harness/postgres-session.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { createDatabase } from "../setup/database.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { arrivedAt, findSetbacks } from "./crash-checks.ts";
import { startLoad } from "./scale-load.ts";
import { type Killable, startProcesses } from "./scale-processes.ts";

const kills = soakSize(1, 10);

test("two workers share one route by shards, and keep the order per message when they are killed", async () => {
  await using database = await createDatabase();
  const random = createRandom(seed);
  const downstream = await openFlakyDownstream((_path, attempt, share) => ({
    status: share < 0.05 && attempt === 1 ? 500 : 200,
    afterMs: 5,
  }));
  const processes = await startProcesses(1, 2, {
    storage: { driver: "postgres", url: database.url },
    log: { level: "warn" },
    tracking: { unknown: "forward" },
    routes: [
      routeTo(`${downstream.url}/shared`, {
        name: "shared",
        shards: 2,
        to: { concurrency: 16, timeout: "60s", headers: { "x-sent-by": "${PROCESS}" } },
      }),
    ],
  });
  const [receiver, ...workers] = processes as [Killable, ...Killable[]];
  const load = startLoad([receiver.relay], String(seed), soakSize(40, 100));
  const senders = (from: number) =>
    new Set(downstream.arrivals.slice(from).map(({ sentBy }) => sentBy)).size;
  await until("both workers send", () => senders(0) === 2);
  for (let killed = 0; killed < kills; killed += 1) {
    const from = downstream.arrivals.length;
    const victim = workers[random.below(2)] as Killable;
    await victim.kill();
    await victim.ready();
    await until(
      "both workers send again",
      () => new Set(downstream.arrivals.slice(from + 50).map(({ sentBy }) => sentBy)).size === 2,
    );
  }
  await load.stop();

  await using session = await openSession(database.url);
  await until(
    "every delivery is made",
    async () => (await session.number("SELECT count(*) FROM relay.queue")) === 0,
  );
  const stored = await session.rows<{ seq: string; id: string }>(
    "SELECT seq, encode(id, 'hex') AS id FROM relay.events WHERE id IS NOT NULL ORDER BY seq",
  );
  const idOf = (hex: string) => hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
  const seqOf = new Map(stored.map(({ seq, id }) => [idOf(id), Number(seq)]));
  expect([...load.accepted.keys()].filter((id) => !seqOf.has(id))).toEqual([]);
  expect(arrivedAt(downstream.arrivals, "/shared")).toEqual(new Set(seqOf.keys()));
  expect(findSetbacks(downstream.arrivals, "/shared", seqOf)).toEqual([]);
  const holders = await session.rows<{ holders: string }>(
    "SELECT count(DISTINCT value::json ->> 'holder') AS holders FROM relay.state WHERE key IN ('lease/shared#0/2', 'lease/shared#1/2')",
  );
  expect(holders).toEqual([{ holders: "2" }]);
  expect(await auditOf(receiver.relay)).toMatchObject({ balanced: true });
});
