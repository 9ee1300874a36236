import { createRequire } from "node:module";
import net from "node:net";
import tls from "node:tls";
import type { Client } from "undici";
import { takeContinue } from "../../net/interim-answers.ts";
import type { LookupAll } from "../../net/name-lookup.ts";
import { type TlsSettings, tlsOptions } from "../../net/tls.ts";
import { blockedAddress, ConnectionFailed, guardedLookup, isPublicAddress } from "./address-guard.ts";

/** One connection to the destination. undici opens a new socket when the old one was closed while idle. */
export interface Connection {
  readonly client: Client;
  /** True once the present socket has brought an answer. The server may close it before the next request. */
  answered: boolean;
}

/** Waits for a connection. */
export interface Borrower {
  use(connection: Connection): void;
}

export type Connections = ReturnType<typeof createConnections>;

/**
 * At most `limit` connections to one destination, each lent to one borrower at a time. Used last in, first out, so that few stay open. undici's Pool does not report whether
 * a request used an old socket, and does not release one that hangs while connecting.
 */
export function createConnections(origin: string, limit: number, connect: Connect) {
  // Loaded with the first URL, because it takes a tenth of a relay's start, and a relay without URLs does not need it.
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
          if (outcome[1] !== null) takeContinue(outcome[1]);
        });
      },
      allowH2: false,
      pipelining: 1,
      // The exchange has its own deadline. These timeouts would not stop a server that sends byte by byte.
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
    /** Lends a connection: at once when one is free, else in call order. */
    borrow(borrower: Borrower): void {
      const connection = idle.pop() ?? (all.size < limit ? open() : undefined);
      if (connection === undefined) waiting.add(borrower);
      else borrower.use(connection);
    },
    /** Takes a borrower out of the queue. */
    forget: (borrower: Borrower): void => void waiting.delete(borrower),
    /** Returns a healthy connection. */
    giveBack: lend,
    /** Returns a broken connection, which is closed. */
    discard(connection: Connection): void {
      shut(connection);
      if (waiting.size > 0) lend(open());
    },
    /** Replaces a lent connection with one that has a new socket. */
    renew(connection: Connection): Connection {
      shut(connection);
      return open();
    },
    /** Closes all. Borrowers in the queue are not called. */
    async close(): Promise<void> {
      waiting.clear();
      idle.length = 0;
      // The caller aborts its attempts first: undici ends a request that still waits for its socket at once, as an error.
      await null;
      for (const connection of all.keys()) shut(connection);
      await Promise.all(closing);
    },
  };
}

/** Calls back with a connected socket (TLS done) or a {@link ConnectionFailed}. Destroying the returned socket gives up. */
type Connect = (callback: (...outcome: [null, net.Socket] | [Error, null]) => void) => net.Socket | null;

export interface ConnectorOptions {
  /** Allows loopback, private and other non-public addresses. */
  readonly allowPrivate: boolean;
  readonly tls?: TlsSettings | undefined;
  /** For tests. */
  readonly lookup?: LookupAll;
  /** For tests; {@link isPublicAddress}. */
  readonly isPublic?: (address: string) => boolean;
}

/**
 * Connects to the host of `url`. Private addresses are blocked in three places: an IP literal is checked here (Node looks
 * up names only), a name when it is looked up, and a connected socket's address before TLS or HTTP write a byte.
 */
export function createConnector(url: URL, options: ConnectorOptions): Connect {
  const isPublic = options.isPublic ?? isPublicAddress;
  const isAllowed = options.allowPrivate ? () => true : isPublic;
  const secure = url.protocol === "https:";
  const host = url.hostname.startsWith("[") ? url.hostname.slice(1, -1) : url.hostname;
  const isLiteral = net.isIP(host) !== 0;
  const port = url.port === "" ? (secure ? 443 : 80) : Number(url.port);
  const to = {
    host,
    port,
    lookup: guardedLookup(isAllowed, options.lookup),
    noDelay: true,
    keepAlive: true,
    keepAliveInitialDelay: 60_000,
  };
  // The last TLS session, which shortens the next handshake.
  let session: Buffer | undefined;

  function open(): net.Socket {
    if (!secure) return net.connect(to);
    const socket = tls.connect({
      ...to,
      ...tlsOptions(options.tls),
      ALPNProtocols: ["http/1.1"],
      ...(isLiteral ? {} : { servername: host }),
      ...(session === undefined ? {} : { session }),
    });
    socket.on("session", (ticket) => {
      session = ticket;
    });
    return socket;
  }

  return (callback) => {
    if (isLiteral && !isAllowed(host)) {
      process.nextTick(callback, blockedAddress(host), null);
      return null;
    }
    const socket = open();
    let reached = false;
    let ended = false;
    const end = (error: Error | null) => {
      if (ended) return;
      ended = true;
      if (error === null) callback(null, socket);
      else callback(error, null);
    };
    // Must run before TLS's listener on the same event, which writes the first bytes.
    socket.prependListener("connect", () => {
      reached = true;
      if (options.allowPrivate) return;
      const address = socket.remoteAddress;
      if (address !== undefined && isAllowed(address)) return;
      end(address === undefined ? new ConnectionFailed("connect", "the connection was closed at once") : blockedAddress(address));
      socket.destroy();
    });
    socket.once(secure ? "secureConnect" : "connect", () => end(null));
    // Stays for the socket's life. undici adds its own listener once it has the socket.
    socket.on("error", (error) => end(connectFailure(error, reached)));
    return socket;
  };
}

function connectFailure(error: NodeJS.ErrnoException, reached: boolean): ConnectionFailed {
  if (error instanceof ConnectionFailed) return error;
  const code = error.code ?? error.name;
  if (reached) return new ConnectionFailed("tls", `the TLS handshake failed (${code}): ${firstLine(error.message)}`);
  return new ConnectionFailed("connect", `no connection (${code})${error.message === "" ? "" : `: ${firstLine(error.message)}`}`);
}

function firstLine(text: string): string {
  return text.split("\n", 1)[0]?.slice(0, 300) ?? "";
}
