import { expect, onTestFinished, test } from "vitest";
import { Secret } from "../../../src/model/secret.ts";
import { createRedisLinks } from "../../../src/net/redis.ts";
import { redisForTest } from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";

test("errors of a connection that follow the first one do not end the process", async () => {
  const { url } = await redisForTest();
  const link = createRedisLinks()(new Secret(url));
  onTestFinished(() => link.close());
  const { stream } = await link.client();
  await until("it is connected", async () => (await link.client()).status === "ready");
  for (const text of ["the certificate is refused", "an alert of the server"])
    expect(stream.emit("error", new Error(text))).toBe(true);
});
