import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/** A proxy between a listener and a relay, as bad as they come. */
export interface TcpProxy {
  readonly url: string;
  /** Connections made through it so far. */
  connections(): number;
  /** Connections stay open and no byte comes through any more, also of new ones. */
  freeze(): void;
  /** Lets bytes through again. */
  thaw(): void;
  /** Ends every connection at once, with a reset. */
  cut(): void;
  /** From now on what the relay says comes `bytes` at a time, every millisecond. */
  drip(bytes: number | null): void;
}

/** Opens one to a port of this machine, closed at the test's end. */
export async function openProxy(port: number): Promise<TcpProxy> {
  const pairs = new Set<readonly [Socket, Socket]>();
  let count = 0;
  let isFrozen = false;
  let bytes: number | null = null;

  async function pump(from: Socket, to: Socket): Promise<void> {
    for await (const chunk of from as AsyncIterable<Buffer>) {
      let step = 0;
      for (let at = 0; at < chunk.length; at += step) {
        while (isFrozen) await pause(5);
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
    const relay = connect(port, "127.0.0.1");
    const pair = [client, relay] as const;
    pairs.add(pair);
    for (const [socket, other] of [pair, [relay, client] as const]) {
      socket.setNoDelay(true);
      socket.on("error", () => {});
      socket.on("close", () => {
        pairs.delete(pair);
        if (!isFrozen) other.destroy();
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
    isFrozen = false;
    cut();
    server.close();
    await once(server, "close");
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    connections: () => count,
    freeze() {
      isFrozen = true;
    },
    thaw() {
      isFrozen = false;
    },
    cut,
    drip(next) {
      bytes = next;
    },
  };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
