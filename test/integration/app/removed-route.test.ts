import { Redis as Client } from "ioredis";
import { expect, onTestFinished, test } from "vitest";
import { postEvent } from "../../harness/post-event.ts";
import { createMessages } from "../../harness/posts.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { until } from "../../harness/until.ts";
import { startRedis } from "../../setup/redis.ts";

test("a removed route keeps no connection, and delivers what waits when it returns", async () => {
  const redis = await startRedis();
  const client = new Client(redis.url);
  onTestFinished(async () => {
    client.disconnect();
    await redis.stop();
  });
  const others = async () =>
    String(await client.client("LIST"))
      .trim()
      .split("\n").length - 1;
  const arrived = () => client.xlen("s");
  const routes = [{ name: "a", to: { stream: "s", redis: redis.url } }];
  const relay = await startRelayHere({ settings: { routes } });
  const messages = createMessages("removed route here");
  await postEvent(relay.webhookUrl, messages.event());
  await until("it arrives", async () => (await arrived()) === 1);
  expect(await others()).toBeGreaterThan(0);

  relay.writeSettings({ routes: [] });
  await relay.reload();
  await until("the connection is closed", async () => (await others()) === 0);

  relay.writeSettings({ routes });
  await relay.reload();
  await postEvent(relay.webhookUrl, messages.event());
  await until("the next one arrives", async () => (await arrived()) === 2);
});
