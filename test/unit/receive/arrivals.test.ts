import { once } from "node:events";
import { type AddressInfo, connect, createServer } from "node:net";
import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { createArrivals } from "../../../src/receive/http.ts";

test("expects a request for one turn of the event loop after a connection", async () => {
  const arrivals = createArrivals();
  expect(arrivals.expected()).toBe(false);
  arrivals.opened();
  expect(arrivals.expected()).toBe(true);
  await nextTurn();
  expect(arrivals.expected()).toBe(true);
  await nextTurn();
  expect(arrivals.expected()).toBe(false);
});

test("expects a request while each turn brings another connection", async () => {
  const arrivals = createArrivals();
  for (let turn = 0; turn < 5; turn += 1) {
    arrivals.opened();
    await nextTurn();
    expect(arrivals.expected()).toBe(true);
  }
  await nextTurn();
  expect(arrivals.expected()).toBe(false);
});

test("a connection that sends nothing is expected to send for no longer than its turn", async () => {
  const arrivals = createArrivals();
  const server = createServer().on("connection", arrivals.opened);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const client = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [socket] = await once(server, "connection");
  while (arrivals.expected()) await nextTurn();
  expect(socket.bytesRead).toBe(0);
  client.destroy();
  socket.destroy();
  server.close();
});
