import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import type { Sighting } from "../../../src/store/port.ts";
import { keysOf } from "../../../src/store/redis/keys.ts";
import { createSharedSightings } from "../../../src/store/redis/notes.ts";
import { startRedis } from "../../setup/redis.ts";

test("what one process notes another reads once, in order; one that begins reads back to a time; the old is forgotten", async () => {
  const server = await startRedis();
  const redis = new Redis(server.url);
  onTestFinished(async () => {
    redis.disconnect();
    await server.stop();
  });
  const link = { run: <T>(command: (client: Redis) => Promise<T>) => command(redis) };
  const sighting = (at: number, events: number): Sighting => ({
    account: "main",
    at,
    events,
    truncated: 0,
    refused: 0,
    registered: 0,
    missed: 0,
  });
  const [noting, reading] = [createSharedSightings(keysOf("relay"), link), createSharedSightings(keysOf("relay"), link)];
  const now = Date.now();

  expect(await reading.sightings(null, now - 60_000)).toEqual({ sightings: [], place: null });
  await noting.noteSightings([sighting(now, 1), sighting(now, 2)]);
  const first = await reading.sightings(null, now - 60_000);
  expect(first.sightings.map(({ events }) => events)).toEqual([1, 2]);
  expect((await reading.sightings(first.place, now - 60_000)).sightings).toEqual([]);
  await noting.noteSightings([sighting(now, 3)]);
  const second = await reading.sightings(first.place, now - 60_000);
  expect(second.sightings).toEqual([sighting(now, 3)]);
  expect((await reading.sightings(null, now + 60_000)).sightings).toEqual([]);

  // A day on: whole blocks of the stream go, so many are noted.
  await noting.noteSightings(Array.from({ length: 300 }, (_, n) => sighting(now, n)));
  await noting.noteSightings([sighting(now + 2 * 86_400_000, 4)]);
  expect(await redis.xlen("{relay}:sightings")).toBeLessThan(150);
  expect(await redis.keys("*")).toEqual(["{relay}:sightings"]);
});
