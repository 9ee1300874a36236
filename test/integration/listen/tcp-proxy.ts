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
  /** Ends every connection at once, with a reset. */
  cut(): void;
  /** New connections go to this port from now on, as when a balancer has seen that a host is gone. */
  lead(port: number): void;
  /** From now on what the relay says comes `bytes` at a time, every millisecond. */
  drip(bytes: number | null): void;
}

/** Opens one to a port of this machine, closed at the test's end. */
export async function openProxy(port: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let count = 0;
  const frozen = new WeakSet<Socket>();
  let bytes: number | null = null;
  let target = port;

  async function pump(from: Socket, to: Socket): Promise<void> {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      let step = 0;
      for (let at = 0; at < chunk.length; at += step) {
        while (frozen.has(from) && !to.destroyed) await pause(5);
        if (to.destroyed) return;
        step = bytes ?? chunk.length;
        to.write(chunk.subarray(at, at + step));
        if (bytes !== null) await pause(1);
      }
    }
    to.end();
  }

  const server = createServer((client) => {
    count += 1;
    const relay = connect(target, "127.0.0.1");
    const pair = [client, relay] as const;
    pairs.add(pair);
    for (const [socket, other] of [pair, [relay, client] as const]) {
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        if (client.destroyed && relay.destroyed) pairs.delete(pair);
        // Nobody hears of the end of one that is frozen.
        if (!frozen.has(socket)) other.destroy();
      });
    }
    pump(client, relay).catch(() => {});
    pump(relay, client).catch(() => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const cut = (): void => {
    for (const [client, relay] of pairs) {
      client.resetAndDestroy();
      relay.resetAndDestroy();
    }
  };
  onTestFinished(async () => {
    cut();
    server.close();
    await once(server, "close");
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => count,
    freeze() {
      for (const pair of pairs) for (const socket of pair) frozen.add(socket);
    },
    cut,
    lead(next) {
      target = next;
    },
    drip(next) {
      bytes = next;
    },
  };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
