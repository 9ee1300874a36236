// @module-tag slow: it takes disk, network, sessions and the server itself from relays under load.
import { closeSync, openSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { createRandom } from "../../src/sandbox/ids.ts";
import { openNetwork } from "../harness/network.ts";
import { openSession } from "../harness/postgres-session.ts";
import { soakSize } from "../harness/soak.ts";
import { mountSmallDisk } from "../harness/tmpfs.ts";
import { until } from "../harness/until.ts";
import { startPostgres } from "../setup/postgres.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { type Ground, startGround } from "./postgres-ground.ts";

const stops = soakSize(2, 10);
const terminations = soakSize(8, 200);
const mib = 1024 ** 2;

async function refusedNow({ load }: Ground): Promise<void> {
  const wanted = load.refused() + 10;
  await until("posts are refused", () => load.refused() >= wanted);
}

/** Writes a file until the disk is full. */
function fill(path: string): void {
  const file = openSync(path, "w");
  for (let bytes = mib; bytes >= 4096; ) {
    try {
      writeSync(file, Buffer.alloc(bytes));
    } catch {
      bytes /= 2;
    }
  }
  closeSync(file);
}

test("a full disk of the server: posts get 503, and nothing is lost once there is space", async () => {
  const disk = mountSmallDisk(96 * mib);
  await using server = await startPostgres({ disk, durable: true });
  const ground = await startGround(server.url);
  await ground.answered();

  const filler = join(disk, "filler");
  fill(filler);
  await until("the receiver reports the disk", async () =>
    JSON.stringify((await ground.receivers[0]?.relay.ask("/readyz"))?.body).includes(
      "No space left on device",
    ),
  );
  await refusedNow(ground);
  rmSync(filler);
  await ground.acceptedAgain();

  await ground.answered();
  await ground.expectAccounted();
});

test("a network that drops all packets or is slow, ended sessions and crashes of the server lose nothing and plan nothing twice", async () => {
  await using server = await startPostgres({ tcp: true, durable: true });
  const random = createRandom(seed);
  const network = await openNetwork(server.port);
  const ground = await startGround(`postgres://relay@127.0.0.1:${network.port}/postgres`);
  // Also with statements in flight.
  for (const what of ["all", "answers"] as const) {
    await ground.answered();
    network.cut(what);
    await refusedNow(ground);
    await network.mend();
    await ground.acceptedAgain();
  }
  // 200 ms there and back.
  for (const ms of [100, 0]) {
    await ground.answered();
    network.slow(ms);
    network.lead(server.port);
    await ground.acceptedAgain();
  }

  let ended = 0;
  {
    await using session = await openSession(server.url);
    for (let round = 0; round < terminations; round += 1) {
      // Between two of them the processes connect again and store something; now and then all
      // sessions end.
      await ground.answered(2 + random.below(10));
      ended += await session.number(
        `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'wamid-relay' AND random() < $1`,
        [random.chance(0.3) ? 1 : 0.2],
      );
    }
  }
  expect(ended).toBeGreaterThan(terminations);

  for (let stop = 0; stop < stops; stop += 1) {
    await ground.answered();
    await wait(random.below(100));
    // SIGQUIT is `pg_ctl stop -m immediate`; SIGKILL is the crash of its host.
    await server.kill(stop % 2 === 0 ? "SIGQUIT" : "SIGKILL");
    await wait(random.below(3_000));
    await server.restart();
    await ground.acceptedAgain();
  }
  await ground.answered();
  await ground.expectAccounted();
});
