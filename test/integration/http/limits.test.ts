import { expect, test } from "vitest";
import { openDownstream } from "../../harness/downstream.ts";
import { postEvent } from "../../harness/post-event.ts";
import { startRelayHere } from "../../harness/relay-here.ts";
import { routeTo } from "../../harness/relay-settings.ts";
import { until } from "../../harness/until.ts";
import {
  expectAlive,
  expectCleanLog,
  expectError,
  freshEvent,
  holdDrain,
  metric,
  nothingInFlight,
} from "./alive.ts";
import { ask, connect, connectAnswered, requestBytes } from "./raw-client.ts";

const forged = (from?: string) =>
  requestBytes({
    body: "{}",
    secret: "wrong",
    more: from === undefined ? [] : [`x-forwarded-for: ${from}`],
  });

test("bad signatures from one address get 401 up to the limit, then 429, while good events are accepted", async () => {
  const relay = await startRelayHere({ settings: { server: { badSignatureLimit: 5 } } });
  for (let n = 0; n < 5; n++) expectError(await ask(relay.port, forged()), "bad_signature");
  // Not believed, so that nobody escapes by it: this relay trusts no proxy.
  for (let n = 0; n < 5; n++) {
    const answer = await ask(relay.port, forged(`198.51.100.${n}`));
    expectError(answer, "too_many_bad_signatures");
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(Number(answer.headers["retry-after"])).toBeLessThanOrEqual(60);
  }
  await expectAlive(relay);
  expectError(await ask(relay.port, forged()), "too_many_bad_signatures");
  await expectAlive(relay);
  // The log names each refusal up to the limit and not those beyond, which could be millions.
  expect(relay.log().filter(({ msg }) => msg === "bad signature").length).toBe(5);
  expect(await metric(relay, "relay_webhook_requests_total", { outcome: "refused" })).toBe(11);
});

test("answers 503 with Retry-After above maxInFlight, and accepts again when there is room", async () => {
  const relay = await startRelayHere({ settings: { server: { maxInFlight: 3 } } });
  const whole = requestBytes({ body: JSON.stringify(freshEvent()) });
  const held = await Promise.all([1, 2, 3].map(() => connect(relay.port)));
  for (const { write } of held) await write(whole.subarray(0, whole.length - 1));
  await until(
    "three in hand",
    async () => (await metric(relay, "relay_webhook_requests_in_flight")) === 3,
  );

  const answer = await ask(relay.port, { body: JSON.stringify(freshEvent()) });
  expectError(answer, "overloaded");
  expect(answer.headers["retry-after"]).toBe("1");
  // Not counted among them, so that what is refused makes nothing worse.
  expect(await metric(relay, "relay_webhook_requests_in_flight")).toBe(3);
  // Operators are not shut out.
  expect((await relay.ask("/readyz")).status).toBe(200);

  const [first, ...others] = held;
  await first?.write(whole.subarray(whole.length - 1));
  expect(await first?.answer()).toMatchObject({ json: { status: "accepted" } });
  await expectAlive(relay);
  for (const { socket } of others) socket.destroy();
  await nothingInFlight(relay);
  await expectAlive(relay);
});

test("during shutdown it answers pending requests, rejects new ones with 503 and closes, and /readyz has the reason", async () => {
  const downstream = await openDownstream();
  downstream.fail("hang");
  const relay = await startRelayHere({
    settings: {
      routes: [routeTo(downstream.url)],
      server: { shutdownTimeout: "60s", requestTimeout: "60s" },
    },
  });
  const event = freshEvent();
  expect(await postEvent(relay.webhookUrl, event)).toMatchObject({ word: "accepted" });
  await until("a delivery that hangs", () => downstream.counts().arrivals === 1);

  const late = requestBytes({ body: JSON.stringify(freshEvent()) });
  const [half, next, probe] = await Promise.all([
    connect(relay.port),
    connect(relay.port),
    connect(relay.port),
  ]);
  await half.write(late.subarray(0, late.length - 5));
  // On these the head is under way when the stop comes, so that they are not closed as idle.
  const nextBytes = requestBytes({ body: JSON.stringify(freshEvent()) });
  await next.write(nextBytes.subarray(0, 20));
  const probeBytes = requestBytes({
    target: "/readyz",
    method: "GET",
    lines: ["host: relay.test"],
  });
  await probe.write(probeBytes.subarray(0, 20));
  await until(
    "half a body in hand",
    async () => (await metric(relay, "relay_webhook_requests_in_flight")) === 1,
  );

  const stopped = relay.stop();
  await until("the port is closed", () =>
    connect(relay.port).then(
      ({ socket }) => void socket.destroy(),
      () => true,
    ),
  );
  await half.write(late.subarray(late.length - 5));
  expect(await half.answer()).toMatchObject({
    status: 200,
    json: { status: "accepted" },
    headers: { connection: "close" },
  });
  await next.write(nextBytes.subarray(20));
  const refused = await next.answer();
  expectError(refused, "shutting_down");
  expect(refused.headers).toMatchObject({ "retry-after": "1", connection: "close" });
  await probe.write(probeBytes.subarray(20));
  const ready = await probe.answer();
  expect(ready.status).toBe(503);
  expect(JSON.parse(ready.body)).toMatchObject({ ready: false, draining: true });

  downstream.recover();
  await stopped;
  expectCleanLog(relay);
});

test("shutdown does not wait for idle connections, which load balancers keep open", async () => {
  const relay = await startRelayHere({ settings: { server: { shutdownTimeout: "1h" } } });
  const silent = await connect(relay.port);
  await expectAlive(relay);
  await Promise.all([relay.stop(), silent.closed()]);
});

test("behind a proxy, a stop ends each connection with its next answer, and refuses no webhook on it", async () => {
  const relay = await startRelayHere({ settings: { server: { trustProxy: ["loopback"] } } });
  const [idle, other, half] = await Promise.all([
    connectAnswered(relay.port),
    connectAnswered(relay.port),
    connectAnswered(relay.port),
  ]);
  const whole = requestBytes({ body: JSON.stringify(freshEvent()) });
  await half.write(whole.subarray(0, whole.length - 5));
  await until(
    "half a body in hand",
    async () => (await metric(relay, "relay_webhook_requests_in_flight")) === 1,
  );
  const goOn = holdDrain();
  const stopped = relay.stop();
  void half.write(whole.subarray(whole.length - 5));
  for (const connection of [idle, other])
    void connection.write(requestBytes({ body: JSON.stringify(freshEvent()) }));
  for (const connection of [idle, other, half])
    expect(await connection.answer()).toMatchObject({
      status: 200,
      json: { status: "accepted" },
      headers: { connection: "close" },
    });
  goOn();
  await stopped;
});

test("a stop answers connections that wait to be accepted", async () => {
  const relay = await startRelayHere();
  const waiting = await Promise.all(Array.from({ length: 10 }, () => connect(relay.port)));
  const goOn = holdDrain();
  const stopped = relay.stop();
  const answers = waiting.map(async (connection) => {
    await connection.write(requestBytes({ body: JSON.stringify(freshEvent()) }));
    return (await connection.answer()).status;
  });
  expect(new Set(await Promise.all(answers))).toEqual(new Set([200]));
  goOn();
  await stopped;
});
