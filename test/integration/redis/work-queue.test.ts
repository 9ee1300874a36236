import { expect, onTestFinished, test } from "vitest";
import type { DueDelivery } from "../../../src/store/planned.ts";
import { createWorkQueue, type WorkQueue } from "../../../src/store/redis/work-queue.ts";
import type { RedisSettings } from "../../../src/store/settings.ts";
import { redisForTest, restartRedis } from "../../harness/redis-states.ts";
import { until } from "../../harness/until.ts";
import { freePort } from "../../setup/free-port.ts";
import { redisSettings, type Watched, watch } from "./connection-tools.ts";

/** A process with its own connection, as `serve` has it. */
function process(settings: RedisSettings): Watched & { readonly work: WorkQueue } {
  const watched = watch(settings);
  const work = createWorkQueue({ settings, client: watched.redis.client, now: Date.now });
  onTestFinished(() => work.close());
  return { ...watched, work };
}

test("jobs go on after Redis was not there at boot, was killed, and hung; announcing never fails", async () => {
  const settings = redisSettings(`redis://127.0.0.1:${await freePort()}`);
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
