import { once } from "node:events";
import { expect, test } from "vitest";

import { storageOf } from "../../harness/engines.ts";
import { postEvent } from "../../harness/post-event.ts";
import { type RelayHere, startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import { startHttp } from "../url-destination/downstream.ts";
import { freshEvent, metric } from "./alive.ts";
import { ask, connect, requestBytes } from "./raw-client.ts";

const webhook = "relay_webhook_request_seconds";
const api = "relay_api_request_seconds";
const lag = "relay_delivery_lag_seconds";

/** Observations of a histogram. The scrape itself is counted at the next one. */
const countOf = (relay: RelayHere, name: string, labels: Record<string, string>) =>
  metric(relay, `${name}_count`, labels);
const reached = (relay: RelayHere, name: string, labels: Record<string, string>, count: number) =>
  until(
    `${count} of ${name} ${JSON.stringify(labels)}`,
    async () => (await countOf(relay, name, labels)) === count,
  );

test("every webhook request is timed once, by source and status class", async () => {
  const relay = await startRelayHere();
  await postEvent(relay.webhookUrl, freshEvent());
  await postEvent(relay.webhookUrl, freshEvent());
  await ask(relay.port, requestBytes({ body: "{}", secret: "wrong" }));
  await ask(relay.port, { target: "/webhooks/nobody", body: "{}" });
  await reached(relay, webhook, { source: "main", status: "2xx" }, 2);
  await reached(relay, webhook, { source: "main", status: "4xx" }, 1);
  await reached(relay, webhook, { source: "-", status: "4xx" }, 1);

  const whole = requestBytes({ body: JSON.stringify(freshEvent()) });
  const leaving = await connect(relay.port);
  await leaving.write(whole.subarray(0, whole.length - 1));
  await until(
    "it is in flight",
    async () => (await metric(relay, "relay_webhook_requests_in_flight")) === 1,
  );
  leaving.socket.destroy();
  await once(leaving.socket, "close");
  await reached(relay, webhook, { source: "main", status: "none" }, 1);

  const timed = await metric(relay, `${webhook}_count`);
  expect(timed).toBe(await metric(relay, "relay_webhook_requests_total"));
});

test("the time of a webhook request includes the time that its body takes to arrive", async () => {
  const relay = await startRelayHere();
  const whole = requestBytes({ body: JSON.stringify(freshEvent()) });
  const slow = await connect(relay.port);
  await slow.write(whole.subarray(0, whole.length - 1));
  await until(
    "it is in flight",
    async () => (await metric(relay, "relay_webhook_requests_in_flight")) === 1,
  );
  const from = performance.now();
  await new Promise((resolve) => setTimeout(resolve, 60));
  const waited = (performance.now() - from) / 1000;
  await slow.write(whole.subarray(whole.length - 1));
  expect((await slow.answer()).status).toBe(200);
  await reached(relay, webhook, { source: "main", status: "2xx" }, 1);
  expect(await metric(relay, `${webhook}_sum`, { source: "main" })).toBeGreaterThanOrEqual(waited);
});

test("other requests are timed by endpoint: no id, path or query of a caller becomes a label", async () => {
  const relay = await startRelayHere();
  await relay.ask("/v1/events?limit=3");
  await relay.ask("/v1/events/a-secret-id");
  await relay.ask("/no/such/page");
  await relay.ask("/v1/events", { method: "DELETE" });
  await relay.ask("/readyz");
  await reached(relay, api, { endpoint: "listEvents", status: "2xx" }, 1);
  await reached(relay, api, { endpoint: "getReadiness", status: "2xx" }, 1);
  // An unknown event and an unknown page.
  await reached(relay, api, { endpoint: "-", status: "4xx" }, 2);
  const text = String((await relay.ask("/metrics")).body);
  expect(text).toMatch(/relay_api_request_seconds_count\{endpoint="\/metrics",status="2xx"\} \d/);
  expect(text).not.toContain("a-secret-id");
  expect(text).not.toContain("no/such");
});

test("the lag counts from the receipt, across a restart, and not for a replay", async () => {
  let status = 200;
  const downstream = await startHttp((_request, response) => response.writeHead(status).end());
  const relay = await startRelayHere({ settings: { routes: [routeTo(downstream.url)] } });
  const at = (attempt: string) => ({ route: "everything", attempt });
  await postEvent(relay.webhookUrl, freshEvent());
  await reached(relay, lag, at("first"), 1);

  status = 500;
  const late = freshEvent();
  await postEvent(relay.webhookUrl, late);
  const acknowledgedAt = performance.now();
  await until(
    "one attempt failed",
    async () => (await metric(relay, "relay_delivery_attempts_total", { outcome: "retry" })) > 0,
  );
  await relay.stop();
  status = 200;
  const restartedAt = performance.now();
  await relay.start();
  await reached(relay, lag, at("later"), 1);
  expect(await metric(relay, `${lag}_sum`, at("later"))).toBeGreaterThanOrEqual(
    (restartedAt - acknowledgedAt) / 1000 - 0.01,
  );
  expect(await countOf(relay, lag, at("first"))).toBe(0);

  const { id } = await until("that is written down", async () => {
    const { body } = await relay.ask("/v1/deliveries");
    const [newest] = (body as { data: { id: string; state: string }[] }).data;
    return newest?.state === "delivered" && newest;
  });
  expect((await relay.ask(`/v1/deliveries/${id}/retry`, { method: "POST" })).status).toBe(200);
  await until(
    "it is delivered again",
    async () => (await metric(relay, "relay_delivery_attempts_total")) === 2,
  );
  expect(await metric(relay, `${lag}_count`)).toBe(1);
});

test("of two processes, the receiver times the request and the worker the delivery", async () => {
  const downstream = await startHttp((_request, response) => response.end());
  const settings = { ...(await storageOf("postgres")), routes: [routeTo(downstream.url)] };
  const receiver = await startRelayHere({ settings, role: "receive" });
  const worker = await startRelayHere({ settings, role: "work" });
  await postEvent(receiver.webhookUrl, freshEvent());
  await reached(worker, lag, { route: "everything", attempt: "first" }, 1);
  await reached(receiver, webhook, { source: "main", status: "2xx" }, 1);
  expect(await countOf(receiver, lag, {})).toBe(0);
  expect(await countOf(worker, webhook, {})).toBe(0);
  expect(await metric(worker, "relay_build_info", { storage: "postgres" })).toBe(1);
});
