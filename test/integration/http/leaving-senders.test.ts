import { expect, test } from "vitest";
import { until } from "../../harness/until.ts";
import { expectAlive, freshEvent, metric, nothingInFlight, relayOfFile } from "./alive.ts";
import { connect, requestBytes } from "./raw-client.ts";

const relay = await relayOfFile({ server: { requestTimeout: "2m" } });

const body = JSON.stringify(freshEvent({ text: "x".repeat(5_000) }));
const whole = requestBytes({ body });
const headLength = whole.length - body.length;

test("keeps nothing in flight for a sender that disconnects in the middle of its body", async () => {
  const before = await metric(relay, "relay_webhook_requests_total", { outcome: "gone" });
  const connections = await Promise.all(Array.from({ length: 50 }, () => connect(relay.port)));
  await Promise.all(
    connections.map((connection) => connection.write(whole.subarray(0, headLength + 10))),
  );
  await until(
    "all in flight",
    async () => (await metric(relay, "relay_webhook_requests_in_flight")) === 50,
  );
  for (const [n, { socket }] of connections.entries())
    n % 2 === 0 ? socket.destroy() : socket.resetAndDestroy();
  await nothingInFlight(relay);
  expect(await metric(relay, "relay_webhook_requests_total", { outcome: "gone" })).toBe(
    before + 50,
  );
  await expectAlive(relay);
});

test("closes the connection of a sender that ended its side, whether its request was answered or is incomplete", async () => {
  const answered = await connect(relay.port);
  await answered.write(requestBytes({ body: JSON.stringify(freshEvent()) }));
  // Node closes a connection whose sender ended its side, answered or not; so read the answer
  // first.
  expect(await answered.answer()).toMatchObject({ status: 200, json: { status: "accepted" } });
  answered.socket.end();
  expect(await answered.closed()).toBe("");

  const early = await connect(relay.port);
  await early.write(whole.subarray(0, whole.length - 100));
  early.socket.end();
  expect(await early.closed()).toMatch(/^(HTTP\/1\.1 400 |$)/);
  await nothingInFlight(relay);
  await expectAlive(relay);
});
