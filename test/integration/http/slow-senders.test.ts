import { setTimeout as wait } from "node:timers/promises";
import { expect, test } from "vitest";
import { expectAlive, expectError, freshEvent, relayOfFile } from "./alive.ts";
import {
  connect,
  connectAnswered,
  type RawConnection,
  requestBytes,
  signature,
} from "./raw-client.ts";

const relay = await relayOfFile({ server: { requestTimeout: "1s" } });

/**
 * Writes a byte now and then until the relay has had enough. Not a sleep that the test waits for:
 * it ends with the connection.
 */
async function drip(connection: RawConnection, bytes: Buffer): Promise<void> {
  for (const byte of bytes) {
    if (!(await connection.write(Buffer.from([byte])))) return;
    await wait(50);
  }
}

const body = JSON.stringify(freshEvent({ text: "x".repeat(5_000) }));
const whole = requestBytes({ body });
const headLength = whole.length - body.length;

/** What a sender writes at once, and what it then drips. */
const slow: readonly (readonly [name: string, atOnce: Buffer, dripped: Buffer])[] = [
  ["nothing at all", Buffer.alloc(0), Buffer.alloc(0)],
  [
    "headers that drip",
    Buffer.alloc(0),
    Buffer.from(
      whole.toString("latin1").replace("host:", `x-filler: ${"a".repeat(2_000)}\r\nhost:`),
      "latin1",
    ),
  ],
  ["a body that drips", whole.subarray(0, headLength), whole.subarray(headLength)],
  [
    "chunks that drip",
    requestBytes({
      lines: [
        "host: relay.test",
        "transfer-encoding: chunked",
        `x-acme-signature: ${signature(body)}`,
      ],
    }),
    Buffer.from("1\r\nx\r\n".repeat(500)),
  ],
];

test.concurrent.each(slow)(
  "%s: 408 or the connection closes in time, and others are served at once",
  async (_name, atOnce, dripped) => {
    const other = await connectAnswered(relay.port);
    const connections = await Promise.all(Array.from({ length: 20 }, () => connect(relay.port)));
    // The first stops, to see its answer: one that still writes when the relay closes may lose it.
    const dripping = connections.map(async (connection, n) => {
      await connection.write(atOnce);
      if (n > 0) await drip(connection, dripped);
    });
    const closed = Promise.all(connections.map((connection) => connection.closed()));
    let open = true;
    void closed.finally(() => (open = false));
    while (open) {
      await other.write(requestBytes({ body: JSON.stringify(freshEvent()) }));
      expect((await other.answer()).json).toEqual({ status: "accepted" });
      await wait(20);
    }
    other.socket.destroy();
    const answers = await closed;
    expect(answers[0]).not.toBe("");
    for (const text of answers) {
      expect(text).toMatch(/^(HTTP\/1\.1 408 Request Timeout\r\n|$)/);
      if (text !== "")
        expect(JSON.parse(text.slice(text.indexOf("\r\n\r\n") + 4))).toEqual({
          error: expect.any(String),
          code: "request_timeout",
        });
    }
    for (const { socket } of connections) socket.destroy();
    await Promise.all(dripping);
  },
);

test("disconnects a sender that keeps writing slowly after 413", async () => {
  const connection = await connectAnswered(relay.port);
  await connection.write(
    requestBytes({ lines: ["host: relay.test", "content-length: 100000000"] }),
  );
  expectError(await connection.answer(), "too_large");
  void drip(connection, Buffer.alloc(1_000));
  // No second answer after the first.
  expect(await connection.closed()).toBe("");
  connection.socket.destroy();
  await expectAlive(relay);
});
