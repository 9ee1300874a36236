import { expect, test } from "vitest";
import { anEvent, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const { client, storeOf } = storesOnRedis([{ name: "none", match: { events: ["message.*"] } }]);
const keep = { events: 1_000, ignored: 1_000, deliveries: 1_000, messages: 1_000, history: 10 ** 11 };

test("keeps nothing of unknown event kinds after their events are purged", async () => {
  const prefix = `kinds-${process.pid}`;
  const store = storeOf(prefix);
  await store.accept(anEvent({ event: "message.status" }));
  await Promise.all(Array.from({ length: 500 }, (_, n) => store.accept(anEvent({ event: `invented.${n}` }))));
  const now = start + 100_000;
  await store.accept(anEvent({ event: "message.status", receivedAt: now }));
  for (let steps = 0; !(await store.purge(now, keep, 100)).done; steps += 1) expect(steps).toBeLessThan(10_000);
  const keys = await client().keys(`{${prefix}}:*`);
  expect(keys.length).toBeLessThan(40);
  for (const key of keys) {
    const dump = await client().dumpBuffer(key);
    expect([key, dump?.includes("invented.") ?? false]).toEqual([key, false]);
  }
});
