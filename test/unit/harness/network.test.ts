import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { openNetwork } from "../../harness/network.ts";

// Redis resets a connection that its client has ended when bytes are still on the way: no fault of the test that cut the network.
test("a network mends after the server has reset a connection that its client had ended", async () => {
  const arrived = Promise.withResolvers<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => arrived.resolve(socket.on("error", () => {}).resume()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const network = await openNetwork((server.address() as AddressInfo).port);
  const client = connect({ port: network.port, host: "127.0.0.1", allowHalfOpen: true }).on("error", () => {});
  const far = await arrived.promise;
  client.end("bytes");
  await once(far, "end");
  far.resetAndDestroy();
  await network.mend();
  client.destroy();
  expect(network.ended().closed).toBe(1);
});
