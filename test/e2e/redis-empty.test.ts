// Slow: it restarts a Redis without its data.
import { expect, onTestFinished, test } from "vitest";
import { openDownstream } from "../harness/downstream.ts";
import { postEvent } from "../harness/post-event.ts";
import { createMessages } from "../harness/posts.ts";
import { redisForTest } from "../harness/redis-states.ts";
import { type RelayProcess, startRelay } from "../harness/relay-process.ts";
import { relayToken, routeTo } from "../harness/relay-settings.ts";
import { runHere } from "../harness/run-here.ts";
import { until } from "../harness/until.ts";

const isReady = async (relay: RelayProcess) => (await relay.ask("/readyz")).status === 200;

test("continues with a Redis that returns empty", async () => {
  const first = await redisForTest({ appendonly: "always" });
  const downstream = await openDownstream();
  const settings = { storage: { driver: "redis", url: first.url }, routes: [routeTo(downstream.url)] };
  const receiver = await startRelay({ role: "receive", settings });
  const worker = await startRelay({ role: "work", settings });
  const messages = createMessages("empty");
  const gone = new AbortController();
  onTestFinished(() => gone.abort());
  const events = Array.from({ length: 5 }, () => messages.event());
  for (const event of events) expect((await postEvent(receiver.webhookUrl, event)).word).toBe("accepted");
  // And settled: what becomes of an attempt is told to the next Redis too, and counts there for the same event.
  await until("all are delivered", async () => {
    const { body } = await receiver.ask("/v1/audit");
    return (body as { deliveries?: { delivered?: number } }).deliveries?.delivered === 5;
  });

  const [known, fresh] = [events[0] as (typeof events)[0], messages.event()];
  await first.kill();
  await until("it is noticed", async () => !(await isReady(receiver)));
  await redisForTest({ appendonly: "always", port: first.port });
  await until("both are ready", async () => (await isReady(receiver)) && (await isReady(worker)));

  // Dedupe is a part of what is gone; the downstream knows the delivery by its id.
  expect((await postEvent(receiver.webhookUrl, known)).word).toBe("accepted");
  expect((await postEvent(receiver.webhookUrl, known)).word).toBe("duplicate");
  expect((await postEvent(receiver.webhookUrl, fresh)).word).toBe("accepted");
  await until("all are delivered", () => downstream.counts().arrivals === 7);
  expect(new Set(downstream.arrivals.map(({ deliveryId }) => deliveryId)).size).toBe(6);
  // Who listens had come further than Redis now knows, and is told to begin anew.
  const stream = await fetch(`${receiver.url}/v1/listen`, {
    headers: { authorization: `Bearer ${relayToken}`, "last-event-id": "5" },
    signal: AbortSignal.any([gone.signal, AbortSignal.timeout(120_000)]),
  });
  const { value } = await (stream.body as ReadableStream<Uint8Array>).getReader().read();
  expect(Buffer.from(value as Uint8Array).toString()).toContain('"reset":true');
  gone.abort();
  expect(await runHere(["audit", "--config", receiver.settingsPath])).toMatchObject({ code: 0 });
});
