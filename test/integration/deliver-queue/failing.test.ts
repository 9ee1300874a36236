import { expect, test } from "vitest";
import {
  emptyRedis,
  fillRedis,
  makePrimary,
  makeReplica,
  redisForTest,
  restartRedis,
  tellRedis,
} from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { attempt, look, openDestinations, told } from "./destinations.ts";

test("fails at once while Redis is killed, and recovers once it is back", async () => {
  const redis = await redisForTest();
  const open = openDestinations();
  const kinds = [open({ queue: "q", redis: redis.url }), open({ stream: "s", redis: redis.url })];
  for (const to of kinds) expect(told(await attempt(to))).toBe("taken");
  await redis.kill();
  for (const to of kinds) {
    expect(
      await until("the loss is known", async () => /^unreachable: /.exec(told(await attempt(to)))),
    ).toBeTruthy();
    const outcome = await attempt(to);
    expect([told(outcome), outcome.tookMs < 30_000]).toEqual([
      expect.stringMatching(/^unreachable: /),
      true,
    ]);
  }
  await restartRedis(redis);
  for (const to of kinds)
    await until("it takes again", async () => told(await attempt(to, { attempt: 2 })) === "taken");
});

test("reports a closed port and an unknown name as unreachable", async () => {
  const open = openDestinations();
  expect(
    told(await attempt(open({ queue: "q", redis: `redis://127.0.0.1:${await freePort()}` }))),
  ).toBe("unreachable: Redis cannot be reached (ECONNREFUSED)");
  expect(told(await attempt(open({ stream: "s", redis: "redis://nobody.invalid" })))).toMatch(
    /^unreachable: Redis cannot be reached/,
  );
});

test("reports a full and a read-only Redis, and recovers", async () => {
  const redis = await redisForTest();
  const open = openDestinations();
  const kinds = [open({ queue: "q", redis: redis.url }), open({ stream: "s", redis: redis.url })];
  await fillRedis(redis);
  for (const to of kinds) expect(told(await attempt(to))).toBe("full: Redis is full (maxmemory)");
  await emptyRedis(redis);
  for (const to of kinds) expect(told(await attempt(to))).toBe("taken");
  await makeReplica(redis);
  for (const to of kinds) {
    await until("read-only", async () => told(await attempt(to)).startsWith("read-only: "));
  }
  await makePrimary(redis);
  for (const to of kinds)
    await until("it takes again", async () => told(await attempt(to)) === "taken");
});

test("reports wrong credentials without printing them", async () => {
  const redis = await redisForTest({ args: ["--requirepass", "right-password-text"] });
  const admin = { url: redis.url.replace("//", "//:right-password-text@") };
  await tellRedis(admin, "ACL", "SETUSER", "adder", "on", ">adder-password-text", "~s", "+@all");
  const open = openDestinations();
  const as = (who: string) => open({ stream: "s", redis: redis.url.replace("//", `//${who}`) });
  const said = [
    told(await attempt(as(":wrong-password-text@"))),
    told(await attempt(as(""))),
    told(
      await attempt(
        open({ stream: "other", redis: redis.url.replace("//", "//adder:adder-password-text@") }),
      ),
    ),
  ];
  expect(said.map((text) => text.split(":", 1)[0])).toEqual([
    "credentials",
    "credentials",
    "credentials",
  ]);
  expect(said.join()).not.toContain("password-text");
  expect(told(await attempt(as("adder:adder-password-text@")))).toBe("taken");
  expect(told(await attempt(as(":right-password-text@")))).toBe("taken");
});

test("writes to no other database when the configured one does not exist", async () => {
  const redis = await redisForTest({ args: ["--databases", "4"] });
  const open = openDestinations();
  for (const to of [
    open({ queue: "q", redis: `${redis.url}/4` }),
    open({ stream: "s", redis: `${redis.url}/4` }),
  ]) {
    for (let tries = 0; tries < 3; tries++)
      expect(told(await attempt(to))).toBe("database: Redis has no database of that number");
  }
  expect(await look(redis.url).dbsize()).toBe(0);
  expect(told(await attempt(open({ stream: "s", redis: `${redis.url}/3` })))).toBe("taken");
});

test("reports a key of another type as refused, for this destination only", async () => {
  const redis = await redisForTest();
  const open = openDestinations();
  await look(redis.url).set("taken-key", "text");
  expect(told(await attempt(open({ stream: "taken-key", redis: redis.url })))).toBe(
    "refused: WRONGTYPE Operation against a key holding the wrong kind of value",
  );
  expect(told(await attempt(open({ stream: "free-key", redis: redis.url })))).toBe("taken");
});

test("shares one connection per Redis, closes it with the last destination, and aborts attempts in flight", async () => {
  const redis = await redisForTest();
  const open = openDestinations();
  const kinds = [
    open({ queue: "q", redis: redis.url }),
    open({ stream: "s", redis: redis.url }),
    open({ stream: "t", redis: redis.url }),
  ];
  for (const to of kinds) await attempt(to);
  const clients = async () =>
    String(await look(redis.url).client("LIST")).split("name=wamid-relay-deliveries").length - 1;
  expect(await clients()).toBe(1);
  redis.hang();
  const underWay = kinds.map((to) => attempt(to));
  await Promise.all(kinds.map((to) => to.close()));
  redis.goOn();
  expect((await Promise.all(underWay)).map(told)).toEqual(
    Array.from({ length: 3 }, () => "aborted: the relay was shutting down"),
  );
  await until("the connection is gone", async () => (await clients()) === 0);
  expect(told(await attempt(kinds[0] as (typeof kinds)[0]))).toBe(
    "aborted: the relay was shutting down",
  );
});
