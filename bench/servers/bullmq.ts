import type { AddressInfo } from "node:net";
import { Queue } from "bullmq";
import { Redis } from "ioredis";
import { answerParent } from "../process/child.ts";
import { buildApp } from "./fastify-app.ts";

/**
 * What most people write by hand: Fastify, and one `queue.add` for each event, which is answered
 * once Redis has it. Whatever is to be done with an event is left to workers, as it is by a relay's
 * process with role `receive`.
 */
const connection = new Redis(process.argv[3] as string, { maxRetriesPerRequest: null });
const queue = new Queue("events", { connection });
await queue.waitUntilReady();

const app = buildApp(async (body) => {
  const event = JSON.parse(body.toString("utf8")) as { id: string; event: string };
  await queue.add(event.event, event, { jobId: event.id });
});
await app.listen({ port: Number(process.argv[2]), host: "127.0.0.1" });

/**
 * `take`: how many events are stored; and they are removed, as a worker would have done by the next
 * round.
 */
answerParent(
  async () => {
    const stored = await queue.getWaitingCount();
    await connection.flushdb();
    return stored;
  },
  (app.server.address() as AddressInfo).port,
);
