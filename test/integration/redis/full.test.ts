import { expect, onTestFinished, test } from "vitest";
import { createRedisStore } from "../../../src/store/redis/open.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { fillRedis, redisForTest } from "../../harness/redis-states.ts";
import { redisSettings, watch } from "./connection-tools.ts";

const day = 86_400_000;
const keep = { events: 30 * day, ignored: day, deliveries: 30 * day, messages: 180 * day, history: 400 * day };

test("the purge frees memory in a full Redis that refuses all other writes", async () => {
  const server = await redisForTest();
  const { redis } = watch(redisSettings(server.url));
  await redis.opened();
  let stored = 0;
  const committed = () => {
    stored += 1;
  };
  const store = createRedisStore(redis, "relay", rulesFor([{ name: "all", match: { tracked: true } }]), { committed });
  onTestFinished(() => store.close());
  const pass = async (now: number) => {
    const purged = { events: 0, messages: 0 };
    for (let passes = 0; passes < 3; ) {
      const { events, messages, done } = await store.purge(now, keep, 100);
      purged.events += events;
      purged.messages += messages;
      if (done) passes += 1;
    }
    return purged;
  };
  for (const wamid of ["seen", "also seen"]) await store.accept(anEvent({ wamid }));
  await store.register([{ account: "main", wamid: "registered" }], start);
  await store.accept(anEvent({ wamid: "young", receivedAt: start + 30 * day }));
  await store.expireParked(start + 31 * day, 10);
  const key = { account: "main", kind: "message", key: "k" } as const;
  await store.beginSend(key, { fingerprint: "f", resend: 0, about: "", at: start });
  await store.settleSend(key, { end: "unknown" });
  await store.accept(anEvent({ receivedAt: start + 30 * day }));

  await fillRedis(server);
  await expect(store.accept(anEvent())).rejects.toMatchObject({ kind: "full" });
  stored = 0;
  expect(await store.holdLease("retention", 1000)).toBe(true);
  expect(await pass(start + 31 * day)).toEqual({ events: 2, messages: 2 });
  expect(await store.forgetSends(start + day, 10)).toBe(1);
  expect(await pass(start + 300 * day)).toMatchObject({ messages: 2 });
  expect(stored, "freeing memory does not mean that storing works").toBe(0);
  await expect(store.register([{ account: "main", wamid: "new" }], start)).rejects.toMatchObject({ kind: "full" });
});
