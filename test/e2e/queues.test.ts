// @module-tag slow: it kills and restarts a Redis while both engines deliver.
import { symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Queue } from "bullmq";
import { expect, onTestFinished, test } from "vitest";
import { auditOf } from "../harness/ask-relay.ts";
import { codeBlocks, readPage } from "../harness/pages.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { startProgram } from "../harness/program.ts";
import { redisForTest, restartRedis } from "../harness/redis-states.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { tempFolder } from "../harness/temp-folder.ts";
import { until } from "../harness/until.ts";
import { look } from "../integration/deliver-queue/destinations.ts";

/** Tried again within moments, and after two attempts that count, dead. */
const impatient = {
  retry: { schedule: ["0s", "100ms"], jitter: 0 },
  breaker: { failures: 10, pause: "100ms", longest: "200ms" },
};

function routesTo(redis: string, more: object = {}) {
  return [
    { name: "to-queue", to: { queue: "whatsapp-events", redis, ...more } },
    {
      name: "to-stream",
      payload: "enriched",
      to: { stream: "whatsapp:history", redis, maxLength: 100_000, ...more },
    },
  ];
}

/** Deliveries of a route by state. */
async function deliveries(
  relay: RelayProcess,
  route: string,
  state: string,
): Promise<{ id: string }[]> {
  const { body } = await relay.ask(`/v1/deliveries?route=${route}&state=${state}&limit=1000`);
  return (body as { data: { id: string }[] }).data;
}

/**
 * Runs the example of the page whose first line names `file`, as it stands there, until the test's
 * end.
 */
function runExample(file: string, redisUrl: string) {
  const code = codeBlocks(readPage("docs/how-to/feed-bullmq-workers.md"), "js").find((text) =>
    text.startsWith(`// ${file}:`),
  );
  const cwd = tempFolder();
  symlinkSync(new URL("../../node_modules", import.meta.url), join(cwd, "node_modules"));
  writeFileSync(join(cwd, file), String(code));
  const { output } = startProgram(process.execPath, [file], {
    cwd,
    env: { ...process.env, REDIS_URL: redisUrl },
  });
  return () => output().split("\n").slice(0, -1);
}

test("the worker and reader of docs/how-to/feed-bullmq-workers.md process jobs and entries, and a replay arrives again", async () => {
  const redis = await redisForTest();
  const relay = await startRelay({ settings: { routes: routesTo(redis.url) } });
  const worker = runExample("worker.mjs", redis.url);
  const reader = runExample("reader.mjs", redis.url);
  const messages = createMessages("queue examples");
  const events = Array.from({ length: 5 }, () => messages.event());
  for (const event of events)
    expect((await postEvent(relay.webhookUrl, event)).word).toBe("accepted");
  for (const event of events)
    expect((await postEvent(relay.webhookUrl, event)).word).toBe("duplicate");

  await until("the worker did them", () => worker().length >= 5);
  await until("the reader did them", () => reader().length >= 5);
  for (const route of ["to-queue", "to-stream"])
    await until(
      `all are delivered ${route}`,
      async () => (await deliveries(relay, route, "delivered")).length === 5,
    );
  const ids = (await deliveries(relay, "to-queue", "delivered")).map(({ id }) => id);
  expect(worker().toSorted()).toEqual(ids.map((id) => `message.status sent ${id}`).toSorted());

  // The job is done and gone; the delivery sent again is another job with the same delivery id.
  const queue = new Queue("whatsapp-events", { connection: look(redis.url) });
  onTestFinished(() => queue.close());
  await queue.clean(0, 100, "completed");
  expect(
    (await relay.ask(`/v1/deliveries/${ids[0]}/retry`, { method: "POST" })).status,
  ).toBeLessThan(300);
  await until("the worker did one more", () => worker().length === 6);
  expect(new Set(worker()).size).toBe(5);
  expect(reader()).toHaveLength(5);
});

test("while Redis is killed, the relay accepts events and kills no delivery; afterwards all arrive in order per message", async () => {
  const redis = await redisForTest({ appendonly: "always" });
  const relay = await startRelay({ settings: { routes: routesTo(redis.url, impatient) } });
  const messages = createMessages("outage");
  const wamids = Array.from({ length: 20 }, messages.wamid);
  const post = (statuses: readonly ("sent" | "delivered" | "read")[]) =>
    Promise.all(
      wamids.map(async (wamid) => {
        for (const status of statuses)
          expect((await postEvent(relay.webhookUrl, messages.status(wamid, status))).status).toBe(
            200,
          );
      }),
    );

  await post(["sent"]);
  await until(
    "some went out",
    async () => (await deliveries(relay, "to-queue", "delivered")).length >= 5,
  );
  await redis.kill();
  await post(["delivered", "read"]);

  // An outage of many times the two attempts that a delivery may have.
  const failedAttempts = () =>
    relay
      .log()
      .filter(
        (line) =>
          line["msg"] === "attempt" &&
          line["outcome"] === "retry" &&
          line["error"] === "unreachable",
      );
  await until("many probes failed", () => failedAttempts().length > 60);
  for (const route of ["to-queue", "to-stream"])
    expect(await deliveries(relay, route, "dead")).toEqual([]);
  expect(relay.log().some((line) => line["msg"] === "circuit breaker open")).toBe(true);
  const metrics = String((await relay.ask("/metrics")).body);
  expect(metrics).toMatch(/relay_breaker_state\{route="to-queue"\} [12]/);

  const again = await restartRedis(redis, { appendonly: "always" });
  for (const route of ["to-queue", "to-stream"]) {
    await until(
      `${route} drained`,
      async () => (await deliveries(relay, route, "delivered")).length === 60,
    );
    for (const state of ["waiting", "held", "dead"])
      expect(await deliveries(relay, route, state)).toEqual([]);
  }

  const entries = await look(again.url).xrange("whatsapp:history", "-", "+");
  const seen = new Map<string, string[]>();
  for (const [, list] of entries) {
    const { data } = JSON.parse(list[list.indexOf("body") + 1] ?? "") as {
      data: { wamid: string; status: string };
    };
    const statuses = seen.get(data.wamid) ?? [];
    // Twice where an answer got lost, but never out of order.
    if (statuses.at(-1) !== data.status) statuses.push(data.status);
    seen.set(data.wamid, statuses);
  }
  expect([...seen.keys()].toSorted()).toEqual([...wamids].toSorted());
  for (const statuses of seen.values()) expect(statuses).toEqual(["sent", "delivered", "read"]);

  const queue = new Queue("whatsapp-events", { connection: look(again.url) });
  onTestFinished(() => queue.close());
  const jobs = await queue.getJobs(["waiting"], 0, -1, true);
  expect(jobs.map(({ id }) => id).toSorted()).toEqual(
    (await deliveries(relay, "to-queue", "delivered")).map(({ id }) => id).toSorted(),
  );
  expect(await auditOf(relay)).toMatchObject({ balanced: true });
});
