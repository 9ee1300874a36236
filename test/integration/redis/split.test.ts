import { expect, test } from "vitest";
import type { AccountName } from "../../../src/model/ids.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { createOnce, type Order } from "../../../src/send/once.ts";
import type { RedisLink } from "../../../src/store/redis/client.ts";
import { createRedisStore } from "../../../src/store/redis/open.ts";
import { rulesFor } from "../../contract/store-events.ts";
import { openNetwork } from "../../harness/network.ts";
import { redisForTest, tellRedis } from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";
import { commandTimeout, failing, redisSettings, watch } from "./connection-tools.ts";

test("commands of a dropped connection do not run when the network recovers", async () => {
  const server = await redisForTest();
  const network = await openNetwork(server.port);
  const { redis, stands } = watch(redisSettings(`redis://127.0.0.1:${network.port}`, { commandTimeout }));
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

test("a send whose key was being reserved when the network failed sends nothing, and frees the key", async () => {
  const server = await redisForTest();
  const network = await openNetwork(server.port);
  const { redis, stands } = watch(redisSettings(`redis://127.0.0.1:${network.port}`, { commandTimeout }));
  await stands("up");
  /** What a begin asks of Redis: a read, then the write. */
  let asked: number | null = null;
  const link: RedisLink = {
    run(use) {
      if (asked !== null && ++asked === 2) network.cut("answers");
      return redis.run(use);
    },
  };
  const store = createRedisStore(link, "relay", rulesFor([]), { committed: () => {} });
  const once = createOnce({
    clock: systemClock,
    store: {
      find: (key) => store.findSend(key),
      begin(key, claim) {
        asked = 0;
        return store.beginSend(key, claim);
      },
      settle: async (key, ended) => void (await store.settleSend(key, ended)),
    },
    hooks: { ended: () => {}, notStored: () => {} },
  });
  const key = { account: "main" as AccountName, kind: "message" as const, key: "k" };
  // By now Redis knows the script: the one whose answer gets lost is the write itself.
  await store.beginSend({ ...key, key: "first" }, { fingerprint: "f", about: "", resend: 0, at: 0 });
  let sent = 0;
  const order: Order = {
    key,
    fingerprint: "f",
    about: "+54…00",
    resend: 0,
    async call({ starting }) {
      await starting();
      sent += 1;
      return { type: "not-done", why: "a test", error: new Error("nothing to send") };
    },
  };
  const caller = { disconnected: new AbortController().signal, maxWait: 60_000, tooLong: () => new Error("no room") };
  await expect(once.send(order, caller)).rejects.toMatchObject({ mayBeDone: true });
  expect(await tellRedis(server, "EXISTS", "{relay}:s:0:main:k")).toBe(1);
  await network.mend();
  await stands("up");
  await until("the key is free", async () => (await store.findSend(key)) === null);
  expect(sent).toBe(0);
  await store.close();
});
