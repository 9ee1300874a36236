// @module-tag slow: it kills and freezes receivers and workers under load.
import { setTimeout as wait } from "node:timers/promises";
import { test } from "vitest";
import { createRandom } from "../../src/sandbox/ids.ts";
import { soakSize } from "../harness/soak.ts";
import { until } from "../harness/until.ts";
import { createDatabase } from "../setup/database.ts";
import { testSeed as seed } from "../setup/seed.ts";
import { startGround } from "./postgres-ground.ts";
import type { Killable } from "./scale-processes.ts";

const rounds = soakSize(4, 20);
const freezes = soakSize(1, 5);

test(`${rounds} rounds of kill -9 of receivers and workers lose nothing, plan nothing twice and keep the order, nor does a frozen worker`, async () => {
  await using database = await createDatabase();
  const random = createRandom(seed);
  const ground = await startGround(database.url);
  for (let round = 0; round < rounds; round += 1) {
    await ground.answered();
    await wait(random.below(100));
    const victims = [ground.receivers, ground.workers]
      .filter((_, place) => round % 3 !== place)
      .map((of) => of[random.below(2)] as Killable);
    await Promise.all(victims.map((one) => one.kill()));
    // Some are killed again while they start.
    if (random.chance(0.7)) await Promise.all(victims.map((one) => one.ready()));
  }
  await Promise.all(ground.processes.map((one) => one.ready()));

  // Past its leases: it starts no attempt of a route that it has lost.
  const late: string[] = [];
  for (let round = 0; round < freezes; round += 1) {
    await until(
      "both hold routes",
      async () => new Set((await ground.holders()).values()).size === 2,
    );
    await ground.answered();
    const [frozen, other] = (round % 2 === 0 ? ground.workers : ground.workers.toReversed()) as [
      Killable,
      Killable,
    ];
    late.push(frozen.name);
    frozen.relay.signal("SIGSTOP");
    await until("the other one has all", async () =>
      [...(await ground.holders()).values()].every((name) => name === other.name),
    );
    // It has attempts to make when it wakes.
    await ground.answered();
    frozen.relay.signal("SIGCONT");
    await until("it is back", async () =>
      [...(await ground.holders()).values()].includes(frozen.name),
    );
  }
  await ground.answered();
  await ground.expectAccounted({ late });
});
