// Slow: it fails a Redis over under load.
import { expect, test } from "vitest";
import { openFlakyDownstream } from "../harness/flaky-downstream.ts";
import { openNetwork } from "../harness/network.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { makePrimary, redisForTest, tellRedis } from "../harness/redis-states.ts";
import { startRelay } from "../harness/relay-process.ts";
import { routeTo } from "../harness/relay-settings.ts";
import { until } from "../harness/until.ts";

test("after a failover that lost an event, the event that reuses its number is delivered", async () => {
  const redis = () => redisForTest({ args: ["--repl-diskless-sync-delay", "0"] });
  const [first, second] = await Promise.all([redis(), redis()]);
  const network = await openNetwork(first.port);
  let isSlow = false;
  const downstream = await openFlakyDownstream(() => ({ status: 200, ...(isSlow ? { afterMs: 2_500 } : {}) }));
  const relay = await startRelay({
    settings: {
      storage: { driver: "redis", url: `redis://127.0.0.1:${network.port}` },
      tracking: { unknown: "forward" },
      routes: [routeTo(downstream.url)],
    },
  });
  const delivered = (count: number) =>
    until(`${count} are delivered`, async () => {
      const { body } = await relay.ask("/v1/audit");
      return (body as { deliveries?: { delivered?: number } }).deliveries?.delivered === count;
    });
  const messages = createMessages("failover");
  expect((await postEvent(relay.webhookUrl, messages.event())).word).toBe("accepted");
  await delivered(1);
  await tellRedis(second, "REPLICAOF", "127.0.0.1", first.port);
  await until("the replica has it", async () => (await tellRedis(second, "GET", "{relay}:seq")) === "1");
  await makePrimary(second);

  isSlow = true;
  const [lost, kept] = [messages.event(), messages.event()];
  expect((await postEvent(relay.webhookUrl, lost)).word).toBe("accepted");
  await until("it is on its way", () => downstream.arrivals.some(({ eventId }) => eventId === lost.id));
  network.lead(second.port);
  await until("the relay is at the other one", async () => (await postEvent(relay.webhookUrl, kept)).status === 200);
  // Both have the same number, each in its Redis.
  const seqs = await Promise.all([first, second].map((redis) => tellRedis(redis, "GET", "{relay}:seq")));
  expect(seqs).toEqual(["2", "2"]);
  await until("the other event is delivered", () => downstream.arrivals.some(({ eventId }) => eventId === kept.id));
  // Its answer comes after the lost one's.
  await delivered(2);
  expect(downstream.counts()).toMatchObject({ arrivals: 3, duplicates: 0 });
});
