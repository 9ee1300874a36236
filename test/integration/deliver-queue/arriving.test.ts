import { Queue } from "bullmq";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { withBusyThreads } from "../../harness/busy-threads.ts";
import { type Redis, startRedis } from "../../setup/redis.ts";
import { attempt, delivery, look, openDestinations, told } from "./destinations.ts";

let redis: Redis;
beforeAll(async () => {
  redis = await startRedis();
});
afterAll(() => redis.stop());

function queueOf(name: string, prefix = "bull"): Queue {
  const queue = new Queue(name, { connection: look(redis.url), prefix });
  onTestFinished(() => queue.close());
  return queue;
}

test("adds a delivery as a job under its own id with the exact body", async () => {
  const to = openDestinations()({ queue: "plain", redis: redis.url });
  expect(told(await attempt(to))).toBe("taken");
  const job = await queueOf("plain").getJob(delivery.id);
  expect(job?.name).toBe("message.status");
  expect(job?.data).toEqual({
    deliveryId: delivery.id,
    event: "message.status",
    eventId: delivery.eventId,
    attempt: 1,
    replay: false,
    contentType: "application/json",
    body: delivery.body.toString(),
    encoding: "utf8",
  });
});

test("connects to a Redis by its name while all threads of the pool are blocked", async () => {
  await import("ioredis");
  const url = redis.url.replace("127.0.0.1", "localhost");
  const outcome = await withBusyThreads(() =>
    attempt(openDestinations()({ stream: "named", redis: url, timeout: "30s" })),
  );
  expect(told(outcome)).toBe("taken");
});

test("adds no second job after a lost answer while the job exists", async () => {
  const to = openDestinations()({ queue: "twice", redis: redis.url });
  const queue = queueOf("twice");
  await attempt(to);
  expect(told(await attempt(to, { attempt: 2 }))).toBe("taken");
  expect(await queue.getJobCounts("waiting", "completed")).toEqual({ waiting: 1, completed: 0 });
});

test("adds a new job for a replay and for a delivery whose job was removed", async () => {
  const to = openDestinations()({ queue: "again", redis: redis.url });
  const queue = queueOf("again");
  await attempt(to);
  await attempt(to, { replays: 1, attempt: 2 });
  await attempt(to, { replays: 2, attempt: 3 });
  const jobs = await queue.getJobs(["waiting"], 0, -1, true);
  expect(jobs.map(({ id, data }) => [id, data.deliveryId, data.replay])).toEqual([
    [delivery.id, delivery.id, false],
    [`${delivery.id}_r1`, delivery.id, true],
    [`${delivery.id}_r2`, delivery.id, true],
  ]);
  await (await queue.getJob(delivery.id))?.remove();
  await attempt(to);
  expect(await queue.getJob(delivery.id)).toBeDefined();
});

test("encodes bytes that are not UTF-8 as base64, and uses any event kind as the job's name", async () => {
  const to = openDestinations()({ queue: "bytes", redis: redis.url });
  const body = Buffer.from([0x7b, 0xff, 0x00, 0x7d]);
  await attempt(to, {
    body,
    event: "mensaje: leído ✓",
    eventId: null,
    contentType: "application/octet-stream",
    contentEncoding: "gzip",
  });
  const job = await queueOf("bytes").getJob(delivery.id);
  expect(job?.name).toBe("mensaje: leído ✓");
  expect(job?.data).toMatchObject({
    eventId: null,
    encoding: "base64",
    contentType: "application/octet-stream",
    contentEncoding: "gzip",
  });
  expect(Buffer.from(job?.data.body, job?.data.encoding)).toEqual(body);
});

test("passes job options in BullMQ's units, with prefix and name", async () => {
  const to = openDestinations()({
    queue: "options",
    redis: redis.url,
    prefix: "{mine}",
    jobName: "whatsapp",
    jobOptions: {
      attempts: 5,
      backoff: { type: "exponential", delay: "1s" },
      priority: 3,
      delay: "1h",
      removeOnComplete: { age: "1d", count: 10 },
      removeOnFail: false,
    },
  });
  await attempt(to);
  const queue = queueOf("options", "{mine}");
  const job = await queue.getJob(delivery.id);
  expect(job?.name).toBe("whatsapp");
  expect(job?.opts).toMatchObject({
    attempts: 5,
    backoff: { type: "exponential", delay: 1000 },
    priority: 3,
    delay: 3_600_000,
    removeOnComplete: { age: 86_400, count: 10 },
    removeOnFail: false,
  });
  expect(await queue.getJobCounts("delayed")).toEqual({ delayed: 1 });
});

test("signs a job over the bytes of its body", async () => {
  const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
  const to = openDestinations()({ queue: "signed", redis: redis.url, secret, passSignature: true });
  await attempt(to, { passHeaders: { "x-acme-signature": "sha256=00", "webhook-id": "theirs" } });
  const job = await queueOf("signed").getJob(delivery.id);
  const { headers, body, encoding } = job?.data ?? {};
  const { Webhook } = await import("standardwebhooks");
  expect(headers).toMatchObject({ "x-acme-signature": "sha256=00", "webhook-id": delivery.id });
  expect(new Webhook(secret).verify(Buffer.from(body, encoding), headers)).toBeDefined();
});

test("adds a delivery to a stream with the exact body, and keeps the entry's id as the answer", async () => {
  const to = openDestinations()({ stream: "history:plain", redis: redis.url });
  const body = Buffer.from([0x7b, 0xff, 0x00, 0x7d]);
  const outcome = await attempt(to, {
    body,
    attempt: 2,
    replays: 1,
    contentEncoding: "br",
    passHeaders: { "x-acme-signature": "sha256=00" },
  });
  const [[id, list] = []] = (await look(redis.url).xrangeBuffer("history:plain", "-", "+")) as [
    Buffer,
    Buffer[],
  ][];
  expect(outcome.response?.toString()).toBe(id?.toString());
  const fields = new Map<string, Buffer>();
  for (let at = 0; at < (list?.length ?? 0); at += 2)
    fields.set(String(list?.[at]), list?.[at + 1] as Buffer);
  expect(
    Object.fromEntries(
      [...fields]
        .filter(([name]) => name !== "body")
        .map(([name, value]) => [name, value.toString()]),
    ),
  ).toEqual({
    deliveryId: delivery.id,
    event: "message.status",
    eventId: delivery.eventId,
    attempt: "2",
    replay: "true",
    contentType: "application/json",
    contentEncoding: "br",
    headers: '{"x-acme-signature":"sha256=00"}',
  });
  expect(fields.get("body")).toEqual(body);
});

test("trims a stream to about maxLength entries, never to fewer", async () => {
  const to = openDestinations()({ stream: "history:short", redis: redis.url, maxLength: 100 });
  await Promise.all(Array.from({ length: 1000 }, () => attempt(to)));
  const length = await look(redis.url).xlen("history:short");
  expect(length).toBeGreaterThanOrEqual(100);
  expect(length).toBeLessThanOrEqual(300);
});
