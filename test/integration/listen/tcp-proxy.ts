import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A proxy between a listener and a relay, as bad as they come. */
export interface TcpProxy {
  readonly url: string;
  /** Connections made through it so far. */
  connections(): number;
  /** Connections there are stay open, and no byte comes through them any more: as after sleep. New ones work. */
  freeze(): void;
}

/** Opens one to a port of this machine, closed at the test's end. */
export async function openProxy(port: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  const frozen = new WeakSet<Socket>();
  let count = 0;
  const server = createServer((client) => {
    count += 1;
    const relay = connect(port, "127.0.0.1");
    pairs.add([client, relay]);
    for (const [from, to] of [
      [client, relay],
      [relay, client],
    ] as const) {
      from.on("error", () => {});
      from.on("data", (chunk) => void (frozen.has(from) || to.write(chunk)));
      // Nobody hears of the end of one that is frozen.
      from.on("close", () => void (frozen.has(from) || to.destroy()));
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    for (const pair of pairs) for (const socket of pair) socket.destroy();
    server.close();
    await once(server, "close");
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => count,
    freeze() {
      for (const pair of pairs) for (const socket of pair) frozen.add(socket);
    },
  };
}
