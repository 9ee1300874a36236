import type { Redis as Client } from "ioredis";
import { expect, test } from "vitest";
import { createRedisStore, type RedisStore } from "../../../src/store/redis/open.ts";
import { anEvent, rulesFor, start } from "../../contract/store-events.ts";
import { storesOnRedis } from "./store-tools.ts";

const routes = [{ name: "all" }];
const { storeOf, client } = storesOnRedis(routes);

const audit = (store: RedisStore) => store.inspecting.audit({ now: start, isRunning: true, mostOffenders: 100 }, () => {});

test("an audit ignores what other processes accept between its steps", async () => {
  const other = storeOf("meanwhile");
  const accept = () => other.accept(anEvent({ wamid: "w1" }));
  await accept();
  let calls = 0;
  const link = {
    async run<A>(command: (redis: Client) => Promise<A>): Promise<A> {
      const answer = await command(client());
      calls += 1;
      await accept();
      return answer;
    },
  };
  const store = createRedisStore(link, "meanwhile", rulesFor(routes), { committed: () => {} });
  const report = await audit(store);
  expect(report.offenders).toEqual([]);
  expect(report).toMatchObject({ balanced: true, rows: { events: 1 } });
  await store.close();
  expect((await other.read.events.list({ limit: 100 })).events).toHaveLength(1 + calls);
});

test("an audit finds secret usage that is too high or too low", async () => {
  const store = storeOf("secretUses");
  for (let n = 1; n <= 3; n += 1) await store.accept(anEvent({ wamid: "w1" }));
  expect((await audit(store)).balanced).toBe(true);
  for (const [change, why] of [
    [1, /verified 4 events, but only 3 were accepted/],
    [-2, /3 events by source and secret main:fingerprint are stored, and 2 are counted/],
  ] as const) {
    await client().hincrby("{secretUses}:usage", "main:fingerprint:events", change);
    const report = await audit(store);
    expect(report.offenders).toMatchObject([{ rule: "secret usage differs", what: expect.stringMatching(why) }]);
    expect(report.balanced).toBe(false);
  }
});

test("an audit finds deliveries in the wrong list by cause, or in none, and members without an event", async () => {
  const store = storeOf("causes");
  const seqs: number[] = [];
  for (const wamid of ["w1", "w2", "w3"]) {
    const outcome = await store.accept(anEvent({ wamid }));
    seqs.push(outcome.result === "accepted" ? outcome.seq : 0);
  }
  const [first = 0, second = 0, third = 0] = seqs;
  for (const event of [first, second]) {
    const attempt = {
      number: 1,
      at: start,
      tookMs: 1,
      result: { kind: "answered", status: 503, retryAfterMs: null },
      response: null,
    } as const;
    await store.settle({ route: "all", event, attempt, settled: { to: "waiting", nextAt: start + 1 }, at: start });
  }
  const list = (name: string) => `{causes}:cause:all:${name}`;
  const offences = async () => (await audit(store)).offenders.map(({ rule, event }) => [rule, event]);
  expect(await offences()).toEqual([]);

  await client().zrem(list("0:503"), String(first));
  expect(await offences()).toEqual([["delivery contradicts itself", first]]);
  await client().zadd(list("0:503"), first, String(first));
  expect(await offences()).toEqual([]);

  // One that did not fail, and one in the list of another state.
  await client().sadd("{causes}:causes:all", "3:503");
  await client().zadd(list("0:503"), third, String(third));
  await client().zadd(list("3:503"), second, String(second));
  expect(await offences()).toEqual([
    ["delivery contradicts itself", second],
    ["delivery contradicts itself", third],
  ]);
  await client().zrem(list("0:503"), String(third));
  await client().del(list("3:503"));
  expect(await offences()).toEqual([]);

  // Of an event that is gone, up to the newest.
  await client().zadd(list("0:503"), 0, "0");
  expect(await offences()).toEqual([["delivery without event", 0]]);
});
