// Slow: it stops, kills and freezes a Redis.
import { expect, onTestFinished, test } from "vitest";
import type { Clock } from "../../../src/model/clock.ts";
import { systemClock } from "../../../src/model/system-clock.ts";
import { createWorkQueue, type WorkQueue } from "../../../src/store/redis/work-queue.ts";
import type { DueDelivery } from "../../../src/store/rules.ts";
import type { RedisSettings } from "../../../src/store/settings.ts";
import { createManualClock } from "../../harness/manual-clock.ts";
import { openNetwork } from "../../harness/network.ts";
import { makeReplica, redisForTest, restartRedis } from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { commandTimeout, redisSettings, type Watched, watch } from "./connection-tools.ts";

/** A process with its own connection, as `serve` has it. */
function process(settings: RedisSettings, clock: Clock = systemClock): Watched & { readonly work: WorkQueue } {
  const watched = watch(settings);
  const work = createWorkQueue({ settings, client: watched.redis.client, clock });
  onTestFinished(() => work.close());
  return { ...watched, work };
}

test("jobs continue after Redis was down at startup, killed, and hung, and announcing never fails", { tags: ["slow"] }, async () => {
  const settings = redisSettings(`redis://127.0.0.1:${await freePort()}`, { commandTimeout });
  const port = Number(new URL(settings.url.reveal()).port);
  const [receiver, worker] = [process(settings), process(settings)];
  let woken = 0;
  worker.work.onDue({ offer: () => {}, wake: () => woken++ });
  const announce = () => receiver.work.announce([{ route: "r", at: 0 } as DueDelivery]);

  async function arrives(): Promise<void> {
    await receiver.stands("up");
    const before = woken;
    await until("a job arrived", () => {
      announce();
      return woken > before;
    });
  }

  announce();
  const server = await redisForTest({ port, appendonly: "always" });
  await arrives();

  await server.kill();
  await receiver.stands("unreachable");
  announce();
  const again = await restartRedis(server, { appendonly: "always" });
  await arrives();

  again.hang();
  announce();
  await receiver.stands("hung");
  announce();
  again.goOn();
  await arrives();
  expect(receiver.redis.state().kind).toBe("up");
});

test("jobs continue after a failover that closed no connection", async () => {
  const [first, second] = [await redisForTest(), await redisForTest()];
  const network = await openNetwork(first.port);
  const settings = redisSettings(`redis://127.0.0.1:${network.port}`);
  const [receiver, worker] = [process(settings), process(settings)];
  let woken = 0;
  worker.work.onDue({ offer: () => {}, wake: () => woken++ });
  const arrives = async () => {
    await receiver.stands("up");
    const before = woken;
    await until("a job arrived", () => {
      receiver.work.announce([{ route: "r", at: 0 } as DueDelivery]);
      return woken > before;
    });
  };
  await arrives();
  network.lead(second.port, "stay");
  await makeReplica(first);
  await until("it is noticed", () => receiver.moves.includes("read-only"));
  await arrives();
});

test("announcements just after a job get one more job", async () => {
  const server = await redisForTest({});
  const settings = redisSettings(server.url);
  const clock = createManualClock(1000);
  const [receiver, worker] = [process(settings, clock), process(settings)];
  let woken = 0;
  worker.work.onDue({ offer: () => {}, wake: () => woken++ });
  await receiver.stands("up");
  const announce = () => receiver.work.announce([{ route: "r", at: 0 } as DueDelivery]);

  announce();
  await until("the first job arrived", () => woken === 1);
  for (let times = 0; times < 100; times += 1) announce();
  await clock.advance(20);
  await until("the second job arrived", () => woken === 2);
  // Nothing came meanwhile, so there is no third; the next is told at once.
  await clock.advance(20);
  announce();
  await until("the third job arrived", () => woken === 3);
});

test("notifies another worker of unplanned events by a job, and its own planner directly", async () => {
  const server = await redisForTest({});
  const settings = redisSettings(server.url);
  const [receiver, worker, both] = [process(settings), process(settings), process(settings)];
  await receiver.stands("up");
  const woken = { planner: 0, own: 0, lanes: 0 };
  worker.work.onDue({ offer: () => {}, wake: () => woken.lanes++ });
  const end = worker.work.onWaiting(() => woken.planner++);
  const jobs = async () => Number(await receiver.redis.client.get(`{${settings.prefix}}:work:id`));

  receiver.work.waiting();
  await until("the worker was told", () => woken.planner === 1);
  expect([woken.lanes, await jobs()]).toEqual([0, 1]);

  const endOwn = both.work.onWaiting(() => woken.own++);
  both.work.waiting();
  expect(woken.own).toBe(1);
  receiver.work.waiting();
  await until("one of the two was told", () => woken.planner + woken.own === 3);
  expect(await jobs()).toBe(2);

  // Who plans no more is told of nothing.
  endOwn();
  end();
  const before = { ...woken };
  both.work.waiting();
  await until(
    "the job has come and gone",
    async () => (await jobs()) === 3 && (await receiver.redis.client.llen(`{${settings.prefix}}:work:wait`)) === 0,
  );
  expect(woken).toEqual(before);
});
