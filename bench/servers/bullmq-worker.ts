import { Worker } from "bullmq";
import { Redis } from "ioredis";
import { Agent } from "undici";
import { ready } from "../process/child.ts";
import { type PostJob, queueName } from "./post-job.ts";

/**
 * What most people write by hand: a BullMQ worker that posts each job with undici and fails it unless the answer is a 2xx.
 * Arguments after the port: URL of Redis, jobs at once.
 */
const [url, jobsAtOnce] = process.argv.slice(3) as [string, string];
const concurrency = Number(jobsAtOnce);
const agent = new Agent({ connections: concurrency, pipelining: 1 });
const connection = new Redis(url, { maxRetriesPerRequest: null });

const worker = new Worker<PostJob>(
  queueName,
  async ({ data }) => {
    const target = new URL(data.url);
    const answer = await agent.request({
      origin: target.origin,
      path: target.pathname,
      method: "POST",
      headers: { "content-type": "application/json", "webhook-id": data.id },
      body: data.body,
    });
    await answer.body.dump();
    if (answer.statusCode >= 300) throw new Error(`answered ${answer.statusCode}`);
  },
  { connection, concurrency, removeOnComplete: { count: 0 } },
);
await worker.waitUntilReady();
ready(0);
