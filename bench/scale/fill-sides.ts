import { Queue } from "bullmq";
import { Redis } from "ioredis";
import type { Redis as RedisServer } from "../../test/setup/redis.ts";
import { type EventSet, eventAt, wamidsOf } from "../events.ts";
import type { RunResult, RunSpec } from "../load/run.ts";
import { planAll } from "../process/plan-all.ts";
import type { Child } from "../process/start-child.ts";
import { startRelay } from "../process/start-relay.ts";
import { type PostJob, queueName } from "../servers/post-job.ts";

const perBulk = 250;

/** What the events wait in. */
export interface Filled {
  readonly redis: RedisServer;
  readonly destination: string;
  readonly concurrency: number;
}

/**
 * A receiver takes all events of the set while nobody works; they are only accepted then. `isPlanned`: a worker that delivers
 * nothing plans them, as the jobs of the other side are made when they come. Both processes are ended.
 */
export async function fillRelay(
  { redis, destination, concurrency }: Filled,
  load: Child,
  set: EventSet,
  { isPlanned }: { isPlanned: boolean },
): Promise<void> {
  const receiver = await startRelay({ destination, concurrency, role: "receive", settings: redisStorage(redis) });
  try {
    await receiver.register(wamidsOf(set));
    const spec: RunSpec = {
      port: receiver.port,
      limit: set.count,
      connections: 64,
      warmupMs: 0,
      measureMs: null,
      rate: null,
      serverPid: null,
      keepSentAt: false,
    };
    const result = (await load.ask({ run: spec })) as RunResult;
    if (result.statuses["200"] !== set.count) throw new Error(`of ${set.count} events: ${JSON.stringify(result.statuses)}`);
    if (isPlanned) await planAll(redis.url);
    const dispositions = await receiver.dispositions();
    const word = isPlanned ? "routed" : "accepted";
    if (dispositions[word] !== set.count) throw new Error(`not every event is ${word}: ${JSON.stringify(dispositions)}`);
  } finally {
    await receiver.stop();
  }
}

/** The same bodies as jobs of BullMQ. */
export async function fillQueue({ redis, destination }: Filled, set: EventSet): Promise<void> {
  const connection = new Redis(redis.url, { maxRetriesPerRequest: null });
  const queue = new Queue<PostJob>(queueName, { connection });
  try {
    for (let from = 0; from < set.count; from += perBulk) {
      const jobs = Array.from({ length: Math.min(perBulk, set.count - from) }, (_, at) => {
        const { id, body } = eventAt(set.run, from + at);
        return { name: "post", data: { id, url: destination, body: body.toString() }, opts: { jobId: id } };
      });
      await queue.addBulk(jobs);
    }
    const there = await queue.getWaitingCount();
    if (there !== set.count) throw new Error(`${there} of ${set.count} jobs are in the queue`);
  } finally {
    await queue.close();
    connection.disconnect();
  }
}

/** With the default timeout of 2 s, a pause of the machine is a 503, which ends a bench. */
export function redisStorage({ url }: Pick<RedisServer, "url">): Readonly<Record<string, unknown>> {
  return { storage: { driver: "redis", url, commandTimeout: "30s" } };
}
