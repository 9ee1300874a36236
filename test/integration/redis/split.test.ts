import { expect, test } from "vitest";
import { openNetwork } from "../../harness/network.ts";
import { redisForTest, tellRedis } from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";
import { failing, redisSettings, watch } from "./connection-tools.ts";

test("what a connection had not got through when it was given up is not done when the network is mended", async () => {
  const server = await redisForTest();
  const network = await openNetwork(server.port);
  const { redis, stands } = watch(redisSettings(`redis://127.0.0.1:${network.port}`));
  await stands("up");

  network.cut();
  const { error } = await failing(redis);
  expect(error).toMatchObject({ kind: "hung", mayBeDone: true });
  await until("the connection is given up", () => network.ended().reset + network.ended().closed > 0);
  await network.mend();
  await stands("up");
  expect(await tellRedis(server, "EXISTS", "{relay}:k")).toBe(0);

  await redis.run((client) => client.set("{relay}:k", "v"));
  expect(await tellRedis(server, "GET", "{relay}:k")).toBe("v");
});
