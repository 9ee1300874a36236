import { createRequire } from "node:module";
import type net from "node:net";
import type { Client } from "undici";
import type { Connect } from "./connector.ts";

/** One connection to the destination; undici opens its socket anew when it was closed while idle. */
export interface Connection {
  readonly client: Client;
  /** True once the present socket has brought an answer: the next request on it may meet a closed door. */
  answered: boolean;
}

/** Waits for a connection. */
export interface Borrower {
  use(connection: Connection): void;
}

/** At most `limit` connections, each lent to one borrower at a time. */
export interface Connections {
  /** Lends a connection: at once when one is free, else in the order asked. */
  borrow(borrower: Borrower): void;
  /** Takes a borrower out of the queue. */
  forget(borrower: Borrower): void;
  /** Gives back a connection in good order. */
  giveBack(connection: Connection): void;
  /** Gives back a connection that is not: it is closed. */
  discard(connection: Connection): void;
  /** Exchanges a lent connection for one with a new socket. */
  renew(connection: Connection): Connection;
  /** Closes all. Borrowers in the queue are left to themselves. */
  close(): Promise<void>;
}

/**
 * The connections of one destination, used last-in-first-out so that few stay warm. Not undici's Pool:
 * that one does not say whether a request went out on a used socket, nor lets go of one that hangs
 * while connecting.
 */
export function createConnections(origin: string, limit: number, connect: Connect): Connections {
  // Loaded with the first URL: it is a tenth of what a relay's start costs, and one without URLs starts without it.
  const { Client } = createRequire(import.meta.url)("undici") as typeof import("undici");
  const idle: Connection[] = [];
  const all = new Map<Connection, () => net.Socket | null>();
  const waiting = new Set<Borrower>();
  const closing = new Set<Promise<void>>();

  function open(): Connection {
    let connecting: net.Socket | null = null;
    const client = new Client(origin, {
      connect: (_options, callback) => {
        connecting = connect((...outcome) => {
          connecting = null;
          callback(...outcome);
        });
      },
      allowH2: false,
      pipelining: 1,
      // The deadline over the whole exchange is kept by the exchange itself; these would not stop a dripping server.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
    const connection: Connection = { client, answered: false };
    client.on("connect", () => {
      connection.answered = false;
    });
    all.set(connection, () => connecting);
    return connection;
  }

  function shut(connection: Connection): void {
    const connecting = all.get(connection)?.();
    all.delete(connection);
    connecting?.destroy();
    const closed = connection.client.destroy().finally(() => closing.delete(closed));
    closing.add(closed);
  }

  function lend(connection: Connection): void {
    for (const borrower of waiting) {
      waiting.delete(borrower);
      borrower.use(connection);
      return;
    }
    idle.push(connection);
  }

  return {
    borrow(borrower) {
      const connection = idle.pop() ?? (all.size < limit ? open() : undefined);
      if (connection === undefined) waiting.add(borrower);
      else borrower.use(connection);
    },
    forget: (borrower) => void waiting.delete(borrower),
    giveBack: lend,
    discard(connection) {
      shut(connection);
      if (waiting.size > 0) lend(open());
    },
    renew(connection) {
      shut(connection);
      return open();
    },
    async close() {
      waiting.clear();
      idle.length = 0;
      for (const connection of all.keys()) shut(connection);
      await Promise.all(closing);
    },
  };
}
