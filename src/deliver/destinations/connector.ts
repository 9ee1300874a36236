import net from "node:net";
import tls from "node:tls";
import type { LookupAll } from "../../event/name-lookup.ts";
import { blockedAddress, guardedLookup, isPublicAddress } from "./address-guard.ts";
import { ConnectionFailed } from "./connection-failed.ts";

/** Ends in a connected socket, TLS done, or in a {@link ConnectionFailed}. Destroying what it returns gives up. */
export type Connect = (callback: (...outcome: [null, net.Socket] | [Error, null]) => void) => net.Socket | null;

export interface ConnectorOptions {
  /** Loopback, private and other non-public addresses too. */
  readonly allowPrivate: boolean;
  /** For tests. */
  readonly lookup?: LookupAll;
  /** For tests; {@link isPublicAddress}. */
  readonly isPublic?: (address: string) => boolean;
}

/**
 * Makes connections to the host of `url`. The guard against private addresses stands in three places:
 * an IP literal is checked here (Node looks up names only), names are checked where they are looked up,
 * and the address of the connected socket is checked before TLS or HTTP write a byte.
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
  // The last TLS session, so that a new connection is spared half of the handshake.
  let session: Buffer | undefined;

  function open(): net.Socket {
    if (!secure) return net.connect(to);
    const socket = tls.connect({
      ...to,
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
    // Before the listener that TLS has on the same event: it would write its first bytes.
    socket.prependListener("connect", () => {
      reached = true;
      if (options.allowPrivate) return;
      const address = socket.remoteAddress;
      if (address !== undefined && isAllowed(address)) return;
      end(address === undefined ? new ConnectionFailed("connect", "the connection was closed at once") : blockedAddress(address));
      socket.destroy();
    });
    socket.once(secure ? "secureConnect" : "connect", () => end(null));
    // Stays for the socket's life: undici adds its own once it has the socket.
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
