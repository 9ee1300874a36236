import { createRequire } from "node:module";
import net from "node:net";
import tls from "node:tls";
import type { Client, Dispatcher, Pool } from "undici";
import { blockedAddress, ConnectionFailed, guardedLookup, isPublicAddress } from "./addresses.ts";
import type { LookupAll } from "./name-lookup.ts";
import { type TlsSettings, tlsOptions } from "./tls.ts";

export interface ConnectorOptions {
  readonly allowPrivate: boolean;
  readonly tls?: TlsSettings | undefined;
  /** For tests. */
  readonly lookup?: LookupAll;
  /** For tests; {@link isPublicAddress}. */
  readonly isPublic?: (address: string) => boolean;
}

interface PoolOptions extends ConnectorOptions {
  /** Most at once. Each has one request in flight. */
  readonly connections: number;
  /** In ms, with lookup and TLS handshake. */
  readonly connectWithin: number;
}

export interface Connection extends Pick<Dispatcher, "dispatch"> {
  /**
   * The present socket has brought an answer, and the server may close it before the next request.
   */
  answered: boolean;
}

/** Also receives the connection that is to send the request. */
export interface ConnectionHandler extends Dispatcher.DispatchHandler {
  connecting(connection: Connection): void;
}

export interface HttpPool {
  dispatch(request: Dispatcher.DispatchOptions, handler: ConnectionHandler): void;
  close(): Promise<void>;
  destroy(error: Error): Promise<void>;
}

/**
 * A connection that is never idle would keep to the address that the name had at first. undici's
 * `clientTtl` looks at every busy connection for every request: 4 % of what is delivered.
 */
const longestConnectionMs = 60_000;

export function createPool(url: URL, { connections, connectWithin, ...to }: PoolOptions): HttpPool {
  // Loaded with the first URL, because it takes a tenth of a relay's start.
  const undici = createRequire(import.meta.url)("undici") as typeof import("undici");
  const connect = createConnector(url, to);
  const connecting = new Set<net.Socket>();

  class PooledClient extends undici.Client implements Connection {
    answered = false;
    #openedAt = Number.POSITIVE_INFINITY;

    constructor(origin: URL, options: Client.Options) {
      super(origin, options);
      this.on("connect", () => {
        this.answered = false;
        this.#openedAt = performance.now();
      });
      this.on("disconnect", () => {
        this.#openedAt = Number.POSITIVE_INFINITY;
      });
    }

    override dispatch(request: Dispatcher.DispatchOptions, handler: ConnectionHandler): boolean {
      handler.connecting(this);
      const isOld = performance.now() - this.#openedAt > longestConnectionMs;
      return super.dispatch(isOld ? { ...request, reset: true } : request, handler);
    }
  }

  const pool: Pool = new undici.Pool(url.origin, {
    connections,
    pipelining: 1,
    // One request per connection, so that a reset leaves the outcome of one request unknown.
    allowH2: false,
    // An exchange has its own deadline. These timeouts would not stop a server that sends byte by
    // byte.
    headersTimeout: 0,
    bodyTimeout: 0,
    factory: (origin, options) => new PooledClient(origin, options),
    connect(_options, callback) {
      const socket = connect((...outcome) => {
        clearTimeout(deadline);
        if (socket !== null) connecting.delete(socket);
        callback(...outcome);
        if (outcome[1] !== null) takeContinue(outcome[1]);
      });
      const late = () =>
        socket?.destroy(
          new ConnectionFailed("timeout", `no connection within ${connectWithin} ms`),
        );
      const deadline = setTimeout(late, connectWithin);
      if (socket !== null) connecting.add(socket);
    },
  });

  return {
    dispatch: (request, handler) => void pool.dispatch(request, handler),
    async close() {
      if (!pool.destroyed) await pool.close();
    },
    async destroy(error) {
      const destroyed = pool.destroy(error);
      // undici would let these connect first.
      for (const socket of connecting) socket.destroy();
      await destroyed;
    },
  };
}

/** Fails with a {@link ConnectionFailed}. Destroying the returned socket gives up. */
type Connect = (
  callback: (...outcome: [null, net.Socket] | [Error, null]) => void,
) => net.Socket | null;

/**
 * Private addresses are blocked here (IP literals), when a name is looked up, and before TLS or
 * HTTP write a byte.
 */
function createConnector(url: URL, options: ConnectorOptions): Connect {
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
      end(
        address === undefined
          ? new ConnectionFailed("connect", "the connection was closed at once")
          : blockedAddress(address),
      );
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
  const text = error.message.split("\n", 1)[0]?.slice(0, 300);
  if (reached)
    return new ConnectionFailed("tls", `the TLS handshake failed (${code}): ${text}`, code);
  return new ConnectionFailed("connect", `no connection (${code})`, code);
}

/**
 * Bounds interim answers (1xx), with which a server could keep the relay busy until the deadline.
 */
export const mostInterim = 32;

type Parser = {
  onHeadersComplete(status: number, upgrade: boolean, shouldKeepAlive: boolean): number;
};

/**
 * undici closes the connection at an unasked `100 Continue`, which RFC 9110 says to ignore, and
 * ignores 102. No public way.
 */
function takeContinue(socket: net.Socket): void {
  const key = Object.getOwnPropertySymbols(socket).find(
    ({ description }) => description === "parser",
  );
  const parser =
    key === undefined ? undefined : (socket as unknown as Record<symbol, Parser | null>)[key];
  if (parser === undefined || parser === null) return;
  const read = parser.onHeadersComplete;
  parser.onHeadersComplete = (status, ...rest) =>
    read.call(parser, status === 100 ? 102 : status, ...rest);
}
