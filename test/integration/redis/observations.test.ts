import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import type { Sighting } from "../../../src/store/port.ts";
import { keysOf } from "../../../src/store/redis/keys.ts";
import { createObservations } from "../../../src/store/redis/notes.ts";
import { startRedis } from "../../setup/redis.ts";

test("reads observations of other processes once and in order, from a start time, and drops old ones", async () => {
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
  const [noting, reading] = [createObservations(keysOf("relay"), link), createObservations(keysOf("relay"), link)];
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
  expect(await redis.xlen("{relay}:observations")).toBeLessThan(150);
  expect(await redis.keys("*")).toEqual(["{relay}:observations"]);
});
