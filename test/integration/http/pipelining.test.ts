import { expect, test } from "vitest";
import { makeRelayHere } from "../../harness/relay-here.ts";
import { expectAlive, expectError, freshEvent, metric, relayOfFile } from "./alive.ts";
import { connect, connectAnswered, requestBytes } from "./raw-client.ts";

/** Of one connection, beside the first: web-server.ts. */
const mostPipelined = 32;

const relay = await relayOfFile({ server: { badSignatureLimit: 100_000 } });

const event = () => requestBytes({ body: JSON.stringify(freshEvent()) });
const page = requestBytes({ method: "GET", target: "/healthz", lines: ["host: relay.test"] });

test("answers all of as many pipelined requests as are allowed, repeatedly", async () => {
  const connection = await connect(relay.port);
  for (let round = 0; round < 4; round += 1) {
    await connection.write(Buffer.concat(Array.from({ length: mostPipelined + 1 }, event)));
    for (let n = 0; n <= mostPipelined; n += 1) {
      expect(await connection.answer()).toMatchObject({
        status: 200,
        json: { status: "accepted" },
      });
    }
  }
  connection.socket.destroy();
});

test.each([
  ["events", event, { status: "accepted" }],
  ["pages", () => page, { status: "ok" }],
])(
  "one %s more: the answers so far, 503, and the connection closes",
  async (_name, request, json) => {
    const connection = await connect(relay.port);
    await connection.write(Buffer.concat(Array.from({ length: mostPipelined + 2 }, request)));
    for (let n = 0; n <= mostPipelined; n += 1)
      expect(await connection.answer()).toMatchObject({ status: 200, json });
    const last = await connection.answer();
    expectError(last, "overloaded");
    expect(last.headers).toMatchObject({ connection: "close", "retry-after": "1" });
    expect(await connection.closed()).toBe("");
    await expectAlive(relay);
  },
);

test.each([
  ["badly signed events", () => requestBytes({ body: "{}", secret: "wrong" })],
  ["pages", () => page],
  [
    "calls without a token",
    () => requestBytes({ method: "GET", target: "/v1/events", lines: ["host: relay.test"] }),
  ],
])(
  "accepts few of 20,000 %s from each of ten senders that read nothing, and good events meanwhile",
  async (_name, request) => {
    const refusedBefore = await metric(relay, "relay_webhook_requests_total", {
      outcome: "refused",
    });
    const flood = Buffer.concat(Array.from({ length: 20_000 }, request));
    const senders = await Promise.all(Array.from({ length: 10 }, () => connect(relay.port)));
    for (const { socket, write } of senders) {
      socket.pause();
      void write(flood);
    }
    for (let n = 0; n < 20; n += 1) await expectAlive(relay);
    for (const { socket } of senders) socket.resume();
    await Promise.all(senders.map(({ closed }) => closed()));
    const refused =
      (await metric(relay, "relay_webhook_requests_total", { outcome: "refused" })) - refusedBefore;
    expect(refused).toBeLessThanOrEqual(10 * (mostPipelined + 1));
    await expectAlive(relay);
  },
);

test("a first answer that never ends keeps the connection for at most server.requestTimeout", async () => {
  const quick = await makeRelayHere({ settings: { server: { requestTimeout: "1s" } } });
  await quick.start();
  const connection = await connectAnswered(quick.port);
  const listen = requestBytes({
    method: "GET",
    target: "/v1/listen",
    lines: ["host: relay.test", "authorization: Bearer harness-control-token"],
  });
  await connection.write(
    Buffer.concat([listen, ...Array.from({ length: mostPipelined + 1 }, () => page)]),
  );
  expect(await connection.closed()).toContain("event: hello");
});
