// Slow: it stops PostgreSQL and ends its sessions under load.
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { createRandom } from "../../src/sandbox/ids.ts";
import { openSession } from "../harness/postgres-session.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { createDatabase } from "../setup/database.ts";
import { startPostgres } from "../setup/postgres.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { startGround } from "./postgres-ground.ts";

const stops = soakSize(2, 10);
const terminations = soakSize(20, 200);
const postsPerSecond = soakSize(40, 100);

test(`${stops} stops of the server at once under load lose nothing, plan nothing twice and keep the order`, async () => {
  await using server = await startPostgres({ durable: true });
  const random = createRandom(seed);
  const ground = await startGround(server.url, { receivers: 2, workers: 2, postsPerSecond });
  for (let stop = 0; stop < stops; stop += 1) {
    await ground.answered(postsPerSecond);
    await wait(random.below(100));
    // SIGQUIT is `pg_ctl stop -m immediate`; SIGKILL is the crash of its host.
    await server.kill(stop % 2 === 0 ? "SIGQUIT" : "SIGKILL");
    await wait(random.below(3_000));
    await server.restart();
    const restartedAt = Date.now();
    await until("events are accepted again", () => ground.load.lastAnswerAt() > restartedAt);
  }
  await ground.answered(postsPerSecond);
  await ground.expectAccounted();
});

test(`${terminations} rounds of pg_terminate_backend lose nothing, plan nothing twice and keep the order`, async () => {
  await using database = await createDatabase();
  const random = createRandom(seed);
  const ground = await startGround(database.url, { receivers: 2, workers: 2, postsPerSecond });
  await using session = await openSession(database.url);
  let ended = 0;
  for (let round = 0; round < terminations; round += 1) {
    // Between two of them the processes connect again and store something; now and then all sessions end.
    await ground.answered(2 + random.below(postsPerSecond / 4));
    ended += await session.number(
      `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
       WHERE datname = current_database() AND application_name = 'wamid-relay' AND random() < $1`,
      [random.chance(0.3) ? 1 : 0.2],
    );
  }
  expect(ended).toBeGreaterThan(terminations);
  await ground.answered(postsPerSecond);
  await ground.expectAccounted();
});
