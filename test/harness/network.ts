import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { onTestFinished } from "vitest";

/**
 * A network between a client and a server of this machine that can be cut: no byte comes through,
 * and nobody is told.
 */
export interface Network {
  readonly port: number;
  /**
   * From now on nothing comes through, either way or of the answers only. Who connects waits for an
   * answer.
   */
  cut(what?: "all" | "answers"): void;
  /** Connections made from now on are slower by so many milliseconds, either way. */
  slow(ms: number): void;
  /**
   * What was sent meanwhile arrives, as when a kernel sends it anew: also of connections that were
   * closed in order, whose kernel still has it, and not of those that were reset. Resolves once the
   * server has dealt with all that was closed.
   */
  mend(): Promise<void>;
  /**
   * Nothing comes through the connections that are there, any more: as after sleep. New ones work.
   */
  freeze(): void;
  /**
   * Connections made from now on go to this port, as when a name leads elsewhere; those that are
   * there end with a reset, or stay.
   */
  lead(port: number, old?: "reset" | "stay"): void;
  /** Connections made through it so far. */
  connections(): number;
  /** Those that have ended, by how the client ended them. */
  ended(): { readonly closed: number; readonly reset: number };
}

interface Way {
  readonly to: Socket;
  readonly isCut: () => boolean;
  /** What has not come through yet; null at its end. */
  held: (Buffer | null)[];
}

/** One to a port of this machine, gone at the test's end. */
export async function openNetwork(port: number): Promise<Network> {
  const ways = new Set<Way>();
  const sockets = new Set<Socket>();
  const leaving = new Set<Promise<unknown>>();
  const count = { closed: 0, reset: 0 };
  const frozen = new WeakSet<Socket>();
  let connections = 0;
  let target = port;
  let delayMs = 0;
  let lost: "none" | "all" | "answers" = "none";

  function pass(way: Way): void {
    for (const chunk of way.held.splice(0)) {
      if (chunk === null) way.to.end();
      else if (!way.to.destroyed) way.to.write(chunk);
    }
  }

  function watch(from: Socket, to: Socket, isClient: boolean): void {
    const way: Way = {
      to,
      isCut: () => frozen.has(from) || lost === "all" || (lost === "answers" && !isClient),
      held: [],
    };
    const delay = delayMs;
    let isReset = false;
    ways.add(way);
    sockets.add(from);
    from.setNoDelay(true);
    const hold = (chunk: Buffer | null): void => {
      const arrive = (): void => {
        way.held.push(chunk);
        if (!way.isCut()) pass(way);
      };
      if (delay === 0) arrive();
      else setTimeout(arrive, delay);
    };
    from.on("data", hold);
    from.on("end", () => {
      if (isClient) {
        count.closed += 1;
        // Not `once`, which rejects with the error before: a server may reset a connection that its
        // client has ended.
        leaving.add(new Promise<void>((resolve) => to.once("close", () => resolve())));
      }
      hold(null);
    });
    from.on("error", () => {
      isReset = true;
    });
    from.on("close", () => {
      sockets.delete(from);
      if (!isReset) return;
      if (isClient) count.reset += 1;
      way.held = [];
      ways.delete(way);
      if (!way.isCut()) to.destroy();
    });
  }

  const server = createServer({ allowHalfOpen: true }, (client) => {
    connections += 1;
    const other = connect({ port: target, host: "127.0.0.1", allowHalfOpen: true });
    watch(client, other, true);
    watch(other, client, false);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, "close");
  });

  return {
    port: (server.address() as AddressInfo).port,
    cut(what = "all") {
      lost = what;
    },
    slow(ms) {
      delayMs = ms;
    },
    async mend() {
      lost = "none";
      for (const way of ways) pass(way);
      await Promise.all(leaving);
    },
    freeze() {
      for (const socket of sockets) frozen.add(socket);
    },
    lead(next, old = "reset") {
      target = next;
      if (old === "reset") for (const socket of sockets) socket.resetAndDestroy();
    },
    connections: () => connections,
    ended: () => ({ ...count }),
  };
}
