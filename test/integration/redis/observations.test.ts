import { Redis } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import type { AccountObservation } from "../../../src/store/port.ts";
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
  const observation = (at: number, events: number): AccountObservation => ({
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

  expect(await reading.observations(null, now - 60_000)).toEqual({ observations: [], place: null });
  await noting.noteObservations([observation(now, 1), observation(now, 2)]);
  const first = await reading.observations(null, now - 60_000);
  expect(first.observations.map(({ events }) => events)).toEqual([1, 2]);
  expect((await reading.observations(first.place, now - 60_000)).observations).toEqual([]);
  await noting.noteObservations([observation(now, 3)]);
  const second = await reading.observations(first.place, now - 60_000);
  expect(second.observations).toEqual([observation(now, 3)]);
  expect((await reading.observations(null, now + 60_000)).observations).toEqual([]);

  // A day on: whole blocks of the stream go, so many are noted.
  await noting.noteObservations(Array.from({ length: 300 }, (_, n) => observation(now, n)));
  await noting.noteObservations([observation(now + 2 * 86_400_000, 4)]);
  expect(await redis.xlen("{relay}:observations")).toBeLessThan(150);
  expect(await redis.keys("*")).toEqual(["{relay}:observations"]);
});
